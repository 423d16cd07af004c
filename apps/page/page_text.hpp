#pragma once

// The page of --html with {{data}} in the place of its numbers.
extern const char kPageText[];
