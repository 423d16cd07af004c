"""The page of --html as a test reads it."""
import html.parser
import json

VOID = {"meta", "input", "br", "img", "link"}


class Page(html.parser.HTMLParser):
    """The elements of a page in their order, and the data in it. Wrong nesting is an AssertionError."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.data = [], [], None
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, text):
        if self.open and self.open[-1] == ("script", {"type": "application/json", "id": "data"}):
            assert self.data is None, "the data end within the data"
            self.data = json.loads(text)
