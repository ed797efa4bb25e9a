"""A C program with faults of the build and of the behaviour, some at each instance."""

from rlvr_envs.tasks.making import pick, picks, text, whole
from rlvr_envs.tasks.task import Recipe

FLAGS = ["CFLAGS = -std=c11 -O2 -Wall -Wextra -Werror", "CFLAGS = -std=c99 -O1 -Wall -Wextra -Werror"]

MAKEFILE = """CC = gcc
{flags}
LDLIBS ={libs}
OBJECTS = main.o stats.o{parse_o}

tally: $(OBJECTS)
{tab}$(CC) $(CFLAGS) -o $@ $(OBJECTS) $(LDLIBS)

main.o: main.c stats.h parse.h
stats.o: stats.c stats.h
parse.o: parse.c parse.h

clean:
\trm -f tally *.o

.PHONY: clean
"""

MAIN = """#include <stdio.h>
{include}#include "stats.h"

int main(void)
{{
    struct numbers all = {{0}};
    char bad[WORD_SIZE];

    switch (read_numbers(stdin, &all, bad)) {{
    case READ_BAD:
        fprintf(stderr, "tally: bad number: %s\\n", bad);
        return 2;
    case READ_EMPTY:
        fprintf(stderr, "tally: no numbers\\n");
        return 1;
    case READ_OK:
        break;
    }}
    printf("count %{zu}\\n", all.count);
    printf("mean %.{digits}f\\n", mean(&all));
    printf("median %.{digits}f\\n", median(&all));
    printf("deviation %.{digits}f\\n", deviation(&all));
    return 0;
}}
"""

STATS_H = """#ifndef STATS_H
#define STATS_H

#include "parse.h"

double mean(const struct numbers *all);
double median(struct numbers *all);
double deviation(const struct numbers *all);
{extra}
#endif
"""

STATS_C = """#include "stats.h"

{math}#include <stdlib.h>

{static}double mean(const struct numbers *all)
{{
    double sum = 0;
    for (size_t i = 0; i < all->count; i++)
        sum += all->values[i];
    return sum / all->count;
}}

static int compare(const void *left, const void *right)
{{
    double a = *(const double *)left, b = *(const double *)right;
    return {compare};
}}

double median(struct numbers *all)
{{
    size_t half = all->count / 2;
    qsort(all->values, all->count, sizeof *all->values, compare);
    if (all->count % 2)
        return all->values[half];
    return (all->values[{lower}] + all->values[half]) / 2;
}}

double deviation(const struct numbers *all)
{{
    double middle = mean(all), sum = 0;
    for (size_t i = 0; i < all->count; i++)
        sum += (all->values[i] - middle) * (all->values[i] - middle);
    return sqrt(sum / {divisor});
}}
"""

PARSE_H = """{guard_open}#include <stddef.h>
#include <stdio.h>

#define WORD_SIZE 64

struct numbers {{
    double *values;
    size_t count;
    size_t room;
}};

enum read_result {{ READ_OK, READ_EMPTY, READ_BAD }};

enum read_result read_numbers(FILE *from, struct numbers *into, char bad[WORD_SIZE]);
{guard_close}"""

PARSE_C = """#include "parse.h"

#include <stdlib.h>{string}

static int add(struct numbers *into, double value)
{{
    if (into->count == into->room) {{
        size_t room = into->room ? {grow} : 16;
        double *values = realloc(into->values, room * sizeof *values);
        if (!values)
            return 0;
        into->values = values;
        into->room = room;
    }}
    into->values[into->count++] = value;
    return 1;
}}

enum read_result read_numbers(FILE *from, struct numbers *into, char bad[WORD_SIZE])
{{
    char word[WORD_SIZE];{unused}

    while (fscanf(from, "%63s", word) == 1) {{
        char *end;
        double value = strtod(word, &end);
        if ({bad_word}) {{
            strcpy(bad, word);
            return READ_BAD;
        }}
        if (!add(into, value))
            exit(3);
    }}
    return into->count ? READ_OK : READ_EMPTY{semicolon}
}}
"""

GUARD = ("#ifndef PARSE_H\n#define PARSE_H\n\n", "\n#endif\n")

RIGHT = {
    "libs": " -lm", "parse_o": " parse.o", "tab": "\t", "include": '#include "parse.h"\n', "zu": "zu",
    "extra": "", "math": "#include <math.h>\n", "static": "", "compare": "(a > b) - (a < b)",
    "lower": "half - 1", "divisor": "all->count", "guard_open": GUARD[0], "guard_close": GUARD[1],
    "string": "\n#include <string.h>", "grow": "into->room * 2", "unused": "", "bad_word": "*end", "semicolon": ";",
}
BUILD_FAULTS = [
    {"libs": ""}, {"parse_o": ""}, {"tab": "        "}, {"zu": "d"}, {"math": ""}, {"static": "static "},
    {"guard_open": "", "guard_close": ""}, {"string": ""}, {"unused": "\n    int line = 1;"}, {"semicolon": ""},
    {"extra": "double mode(struct numbers *all) { return all->values[0]; }\n"},
]
BEHAVIOUR_FAULTS = [
    {"compare": "(int)(a - b)"}, {"lower": "half + 1 < all->count ? half + 1 : half"},
    {"divisor": "(all->count - 1)"}, {"grow": "into->room + 1 < 4096 ? into->room * 2 : 4096"}, {"bad_word": "end == word"},
]


def generate(rng, number):
    parts = dict(RIGHT)
    for fault in [*picks(rng, BUILD_FAULTS, 5), *picks(rng, BEHAVIOUR_FAULTS, 2)]:
        parts.update(fault)
    flags, digits = pick(rng, FLAGS), whole(rng, 3, 5)
    sources = {
        "Makefile": MAKEFILE, "main.c": MAIN, "stats.h": STATS_H, "stats.c": STATS_C,
        "parse.h": PARSE_H, "parse.c": PARSE_C,
    }
    files = tuple(
        text(f"/app/tally/{name}", template.format(**parts, flags=flags, digits=digits))
        for name, template in sources.items()
    )
    public = {"flags": flags, "digits": digits, "many": 100_000}
    return Recipe(files=files, values=public, hidden={"flags": flags, "digits": digits})


def hidden(rng, recipe):
    def numbers(count, scale):
        return [whole(rng, -scale, scale) / 100 for _ in range(count)]

    close = [1 + whole(rng, 0, 99) / 100 for _ in range(21)]
    cases = [numbers(1, 500), numbers(2, 500), numbers(7, 90_000), numbers(40, 3_000), close]
    return {"cases": cases, "many_seed": whole(rng, 1, 10**6), "bad": ["12x", "--1", "0x1p3q", "1,5", "four"]}
