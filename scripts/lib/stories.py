#!/usr/bin/env python3
"""stories.py COUNT FILE: writes short stories, which scripts/demo trains a model on, as lines of JSON.

Animals meet, and a thing goes from one to the other. The last sentences tell who has what, and where,
so a reader sees at a glance whether a model that writes such stories knows what happened in them.
The same COUNT gives the same stories."""
import json
import random
import sys

SHE = ("Anna", "Clara", "Ida", "Mira", "Rosa")
HE = ("Ben", "Emil", "Hugo", "Otto", "Tim")
KINDS = ("badger", "bear", "cat", "duck", "fox", "frog", "goat", "goose", "hare", "hedgehog", "mole", "mouse", "otter",
         "owl", "raven", "sheep", "squirrel", "wolf")
COLORS = ("blue", "brown", "golden", "green", "grey", "orange", "purple", "red", "silver", "white", "yellow")
THINGS = ("apple", "ball", "basket", "bell", "book", "boot", "button", "coat", "cup", "drum", "flute", "hat", "kite",
          "lamp", "ribbon", "spoon", "stone", "umbrella")
PLACES = ("at the bridge", "at the harbour", "at the lake", "at the mill", "at the old tower", "at the river",
          "in the barn", "in the cave", "in the forest", "in the garden", "in the market", "in the meadow",
          "in the village", "on the hill")
TIMES = ("One cold morning", "One sunny morning", "One day in spring", "One day in autumn", "On a quiet Sunday",
         "On a windy day", "After a long winter", "Just before noon")


class Story:
    def __init__(self, draw):
        self.draw, self.text = draw, []
        self.a, self.b = draw.sample((draw.choice(SHE), draw.choice(HE)), 2)
        self.kinds = dict(zip((self.a, self.b), draw.sample(KINDS, 2)))
        self.place, self.next_place, self.last_place = draw.sample(PLACES, 3)
        self.thing, self.other_thing = (f"{color} {thing}" for color, thing in
                                        zip(draw.sample(COLORS, 2), draw.sample(THINGS, 2)))
        self.has = {self.a: self.thing, self.b: None}

    def say(self, *ways):
        self.text.append(self.draw.choice(ways))

    @staticmethod
    def pronoun(name):
        return "she" if name in SHE else "he"

    @staticmethod
    def one(thing):
        return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}"

    def owner(self):
        return self.a if self.has[self.a] == self.thing else self.b

    def friend(self):
        return self.b if self.owner() == self.a else self.a

    def begin(self):
        a, kind, thing = self.a, self.kinds[self.a], self.one(self.thing)
        self.say(f"{self.draw.choice(TIMES)} {a} the {kind} sat {self.place}.",
                 f"{self.draw.choice(TIMES)} {a} the {kind} went for a walk and stopped {self.place}.",
                 f"{a} the {kind} lived {self.place}.")
        self.say(f"There {self.pronoun(a)} found {thing}.",
                 f"Behind a tree lay {thing}, and {a} picked it up.",
                 f"\"What is this?\" said {a}, and held up {thing}.")
        b, kind = self.b, self.kinds[self.b]
        self.say(f"A little later {self.pronoun(a)} met {b} the {kind} {self.next_place}.",
                 f"{a} took it along, and met {b} the {kind} {self.next_place}.",
                 f"{b} the {kind} came by, and they walked on and sat down {self.next_place}.")

    def give(self):
        owner, friend = self.owner(), self.friend()
        self.say(f"\"This is for you,\" said {owner}, and gave {friend} the {self.thing}.",
                 f"{friend} liked the {self.thing} so much that {owner} gave it away.")
        self.say(f"{friend} thanked {owner} and danced.", f"{friend} was very happy.", f"\"Thank you!\" said {friend}.")
        self.has[owner], self.has[friend] = None, self.thing

    def trade(self):
        owner, friend = self.owner(), self.friend()
        self.say(f"{friend} had {self.one(self.other_thing)}, and the two traded.",
                 f"\"I will give you {self.one(self.other_thing)} for it,\" said {friend}, and {owner} agreed.")
        self.has[owner], self.has[friend] = self.other_thing, self.thing

    def keep(self):
        owner, friend = self.owner(), self.friend()
        self.say(f"{friend} wanted the {self.thing}, but {owner} kept it.",
                 f"\"May I have the {self.thing}?\" said {friend}. \"No,\" said {owner}, \"it is mine.\"")

    def lose(self):
        owner, friend = self.owner(), self.friend()
        self.say(f"Then {owner} slept, and a gust of wind took the {self.thing}. {friend} ran after it and kept it.",
                 f"On the way {owner} lost the {self.thing}. {friend} found it and said nothing.")
        self.has[owner], self.has[friend] = None, self.thing

    def rest(self):
        self.say("It began to rain, so they waited under a roof.", "They shared a piece of bread.",
                 "They sang a song, and a bird listened.", "They counted the clouds, and laughed.",
                 f"{self.a} told a joke, but {self.b} did not laugh.")

    def end(self):
        owner, friend = self.owner(), self.friend()
        self.say(f"In the evening they were {self.last_place}.", f"Before night came they were {self.last_place}.")
        other = self.has[friend]
        self.say(f"{owner} went to sleep beside the {self.thing}, and {friend} beside "
                 f"{'the ' + other if other else 'a warm fire'}.",
                 f"Now {owner} had the {self.thing}, and {friend} had {'the ' + other if other else 'nothing'}, "
                 "but both had a friend.")

    def tell(self):
        self.begin()
        # Once two things are traded, they stay where they are.
        changes = self.draw.choice(((self.keep,), (self.give,), (self.lose,), (self.trade,), (self.keep, self.give),
                                    (self.give, self.lose), (self.keep, self.lose), (self.keep, self.trade)))
        for happens in self.draw.choice(((*changes, self.rest), (self.rest, *changes), (*changes,))):
            happens()
        self.end()
        return " ".join(self.text)


def main():
    count, path = int(sys.argv[1]), sys.argv[2]
    draw = random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            file.write(json.dumps({"text": Story(draw).tell()}) + "\n")


if __name__ == "__main__":
    main()
