/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RTT samples of Vegas and Veno: the smallest of the connection and the smallest since the algorithm last read it.
 *
 * In the Open state the samples govern the window; in all other states Reno does. The samples restart when Open begins
 * again.
 */
#ifndef ROUGHLINK_SAMPLES_H
#define ROUGHLINK_SAMPLES_H

#include "algorithm.h"

#define NO_RTT (~0u)

struct samples {
	u32 base, rtt; /* us; NO_RTT = none */
	u32 count; /* since the algorithm last set it to 0 */
	u8 govern, open;
};

/* Lets the samples govern the window from now on. */
INLINE void samples_begin(struct samples *s)
{
	s->govern = 1;
	s->rtt = NO_RTT;
}

/* Restarts all samples after an idle period in which the path may have changed. */
INLINE void samples_restart(struct samples *s)
{
	s->base = NO_RTT;
	samples_begin(s);
}

INLINE void samples_init(struct samples *s, const struct flow *f)
{
	samples_restart(s);
	s->count = 0;
	s->open = s->govern = f->state == TCP_CA_Open;
}

INLINE void samples_take(struct samples *s, const struct flow *f)
{
	if (f->rtt_us <= 0)
		return;
	s->base = least(s->base, f->rtt_us);
	s->rtt = least(s->rtt, f->rtt_us);
	if (s->count != ~0u)
		s->count++;
}

/* Handles a change of the recovery state to f->state. Returns true if the connection returns to Open. */
INLINE bool samples_changed(struct samples *s, const struct flow *f)
{
	bool open = f->state == TCP_CA_Open;
	bool entered = open && !s->open;

	if (entered)
		samples_begin(s);
	else if (!open)
		s->govern = 0;
	s->open = open;
	return entered;
}

#endif
