#pragma once

// The page of this program with {{data}} in the place of its data.
extern const char kPageText[];
