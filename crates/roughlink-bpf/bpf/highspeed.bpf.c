/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HighSpeed TCP (RFC 3649): AIMD with an increase a(w) and a decrease b(w) that depend on the window, by the table of
 * appendix B.
 *
 * Scales: a(w) and windows in segments; b(w) in 1/256, rounded down, so the decrease is up to 1/256 of the window below
 * the table's. The table is computed with the parameters of section 5 and cannot be set.
 */
#define PARAMETERS(P)
#include "algorithm.h"

/*
 * Row i applies to windows above the `w` of row i - 1 up to its own, the last row to all larger windows; a(w) = i + 1.
 * The test tests/highspeed.rs compares the table with the Rust algorithm's and prints it.
 */
static const struct {
	u32 w;
	u32 b256;
} table[] = {
	{ 38, 128 }, { 118, 112 }, { 221, 104 }, { 347, 98 }, { 495, 93 }, { 663, 89 },
	{ 851, 86 }, { 1058, 83 }, { 1284, 81 }, { 1529, 78 }, { 1793, 76 }, { 2076, 74 },
	{ 2378, 72 }, { 2699, 71 }, { 3039, 69 }, { 3399, 68 }, { 3778, 66 }, { 4177, 65 },
	{ 4596, 64 }, { 5036, 62 }, { 5497, 61 }, { 5979, 60 }, { 6483, 59 }, { 7009, 58 },
	{ 7558, 57 }, { 8130, 56 }, { 8726, 55 }, { 9346, 54 }, { 9991, 53 }, { 10661, 52 },
	{ 11358, 52 }, { 12082, 51 }, { 12834, 50 }, { 13614, 49 }, { 14424, 48 }, { 15265, 48 },
	{ 16137, 47 }, { 17042, 46 }, { 17981, 45 }, { 18955, 45 }, { 19965, 44 }, { 21013, 43 },
	{ 22101, 43 }, { 23230, 42 }, { 24402, 41 }, { 25618, 41 }, { 26881, 40 }, { 28193, 39 },
	{ 29557, 39 }, { 30975, 38 }, { 32450, 38 }, { 33986, 37 }, { 35586, 36 }, { 37253, 36 },
	{ 38992, 35 }, { 40808, 35 }, { 42707, 34 }, { 44694, 33 }, { 46776, 33 }, { 48961, 32 },
	{ 51258, 32 }, { 53677, 31 }, { 56230, 30 }, { 58932, 30 }, { 61799, 29 }, { 64851, 28 },
	{ 68113, 28 }, { 71617, 27 }, { 75401, 26 }, { 79517, 26 }, { 84035, 25 }, { 4294967295, 24 },
};

#define ROWS (sizeof table / sizeof *table)

struct state {
	struct common common;
	u32 row; /* of the window at its last growth beyond ssthresh */
	u32 count; /* a(w) of the ACKs since the last increase */
};

/* Finds the first row whose window is not below `w` by binary search: 7 steps for up to 128 rows. */
INLINE u32 row_of(u32 w)
{
	u32 low = 0, high = ROWS - 1;

	_Static_assert(ROWS <= 128, "7 steps");
	for (u32 step = 0; step < 7; step++) {
		u32 middle = (low + high) / 2;

		if (middle < ROWS && w > table[middle].w)
			low = middle + 1;
		else
			high = middle;
	}
	return least(low, ROWS - 1);
}

INLINE void begin(struct state *s, struct flow *f)
{
	(void)f;
	s->row = s->count = 0;
}

/*
 * Section 5: w = w + a(w) / w per ACK, regardless of the bytes acknowledged, as in Linux. An ACK never adds more than
 * one segment, because a(w) is below w in every row but the first, where it is 1.
 */
INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->may_grow)
		return;
	if (in_slow_start(f)) {
		slow_start(f, f->segments);
		return;
	}
	s->row = row_of(f->cwnd);
	s->count += s->row + 1;
	if (s->count >= f->cwnd) {
		s->count -= f->cwnd;
		f->cwnd++;
	}
}

/* Section 5: w = (1 - b(w)) w, at least two segments. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	u32 row = least(s->row, ROWS - 1);
	u32 less = (u64)f->cwnd * table[row].b256 / 256;

	s->count = 0;
	return most(f->cwnd - less, 2);
}

/* Handles a time-out within an episode, for which the kernel does not call ssthresh. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss)
		s->count = 0;
}

static const struct algorithm algorithm = {
	.begin = begin, .avoid = avoid, .ssthresh = ssthresh, .changed = changed,
};

#include "hooks.h"
