/* SPDX-License-Identifier: GPL-2.0 */
/*
 * H-TCP (Shorten and Leith, PFLDnet 2004; draft-leith-tcp-htcp, sections 3 and 4), with Linux's scaling of alpha by the
 * RTT.
 *
 * Scales are the same as in the Rust algorithm, so they add no error. Alpha and beta are in 1/128, times in ms (RTTs
 * rounded up), rates in whole segments per second. The maximum of alpha, 2^25 segments, exceeds any window. `beta_min`
 * and `beta_max` are given in 1/2^24 and rounded down to 1/128.
 */
#define PARAMETERS(P)                                                                             \
	P(delta_l_ms, 1) P(beta_min, 16777216) P(beta_max, 16777216) P(throughput_ratio, 1000)    \
	P(adaptive_above_ms, 1) P(rtt_step_ms, 1) P(rtt_scaling, 1) P(bandwidth_switch, 1)
#include "algorithm.h"

#define ONE 128
#define TO_ONE(x) least((x) / (16777216 / ONE), ONE - 1)

struct state {
	struct common common;
	u32 alpha, beta;
	u32 last_acked; /* segments by the last ACK */
	u32 acked, rate_start; /* segments acknowledged since `rate_start` (ms) */
	u32 count; /* segments acknowledged since the last increase */
	u32 min_rtt, max_rtt; /* 0 = none yet */
	u32 last_event;
	u32 rate, max_rate, old_max_rate;
	struct {
		u32 last_event, max_rtt, old_max_rate;
	} before; /* state before the episode */
	u8 in_episode; /* `before` is valid: an episode that was not undone */
	u8 adaptive; /* the next event may adapt beta instead of setting it to its minimum */
	u8 sending; /* the first segment has left */
};

INLINE u32 now(const struct flow *f)
{
	return f->now_us / 1000;
}

INLINE void begin(struct state *s, struct flow *f)
{
	__builtin_memset(&s->alpha, 0, sizeof *s - __builtin_offsetof(struct state, alpha));
	s->alpha = ONE;
	s->beta = TO_ONE(parameters.beta_min);
	s->last_acked = 1;
	s->last_event = now(f);
}

/* Section 4: the throughput, smoothed except in the first three RTTs after an event, and its maximum. */
INLINE void measure_rate(struct state *s, const struct flow *f, u32 acked)
{
	u32 elapsed, rate, few = most(s->alpha / ONE, 1);

	if (f->state > TCP_CA_Disorder) {
		s->acked = 0;
		s->rate_start = now(f);
		return;
	}
	s->acked += acked;
	elapsed = now(f) - s->rate_start;
	/* Wait until about a whole window is acknowledged. */
	if (most(f->cwnd, 1) < few || s->acked < most(f->cwnd, 1) - few || !s->min_rtt || elapsed < s->min_rtt)
		return;
	rate = (u64)s->acked * 1000 / elapsed;
	if ((now(f) - s->last_event) / s->min_rtt <= 3) {
		s->rate = s->max_rate = rate;
	} else {
		s->rate = (3ull * s->rate + rate) / 4;
		s->max_rate = most(s->max_rate, s->rate);
	}
	s->acked = 0;
	s->rate_start = now(f);
}

/* f->state is the state before this ACK. */
INLINE void sample(struct state *s, struct flow *f)
{
	u32 acked = ((u64)f->acked + f->mss - 1) / most(f->mss, 1);

	if (f->state == TCP_CA_Open)
		s->last_acked = acked;
	if (f->rtt_us > 0) {
		u32 rtt = ((u32)f->rtt_us + 999) / 1000;

		if (s->min_rtt > rtt || !s->min_rtt)
			s->min_rtt = rtt;
		if (f->state == TCP_CA_Open) {
			s->max_rtt = most(s->max_rtt, s->min_rtt);
			if (rtt > s->max_rtt && rtt <= (u64)s->max_rtt + parameters.rtt_step_ms)
				s->max_rtt = rtt;
		}
	}
	if (parameters.bandwidth_switch)
		measure_rate(s, f, acked);
}

/*
 * Section 3.1: alpha = 1 + 10 (Delta - Delta_L) + ((Delta - Delta_L) / 2)^2 in seconds, times 2 (1 - beta). Linux also
 * multiplies by RTTmin / 100 ms, bounded to 1/10 .. 2, in eighths.
 */
INLINE void update_alpha(struct state *s, const struct flow *f)
{
	u64 since = now(f) - s->last_event, factor = 1, alpha;

	since = since > parameters.delta_l_ms ? since - parameters.delta_l_ms : 0; /* ms */
	if (since)
		factor = 1 + (10 * since + (since / 2) * (since / 2) / 1000) / 1000;
	if (parameters.rtt_scaling && s->min_rtt) {
		u32 scale = least(most(800 / s->min_rtt, 4), 80);

		factor = 8 * factor / scale;
		if (!factor)
			factor = 1;
	}
	alpha = 2 * factor * (ONE - s->beta);
	s->alpha = alpha < ~0u ? alpha : ~0u;
}

/* Section 3.2: beta = RTTmin / RTTmax if the throughput has changed by at most `throughput_ratio`. */
INLINE void update_beta(struct state *s)
{
	u32 low = TO_ONE(parameters.beta_min), high = TO_ONE(parameters.beta_max);

	if (parameters.bandwidth_switch) {
		u64 old = s->old_max_rate, new = 1000ull * s->max_rate;

		s->old_max_rate = s->max_rate;
		if (new < (1000 - parameters.throughput_ratio) * old || new > (1000 + parameters.throughput_ratio) * old) {
			s->beta = low;
			s->adaptive = 0;
			return;
		}
	}
	if (s->adaptive && s->min_rtt > parameters.adaptive_above_ms && s->max_rtt) {
		s->beta = least(most((u64)s->min_rtt * ONE / s->max_rtt, low), high);
	} else {
		s->beta = low;
		s->adaptive = 1;
	}
}

/* Grows by one segment per W / alpha acknowledged ones (section 3.1). */
INLINE void avoid(struct state *s, struct flow *f)
{
	if (!f->may_grow || !f->segments)
		return;
	if (in_slow_start(f)) {
		slow_start(f, f->segments);
		return;
	}
	if ((u64)s->count * s->alpha / ONE >= f->cwnd) {
		f->cwnd++;
		s->count = 0;
		update_alpha(s, f);
	} else {
		s->count += s->last_acked;
	}
	s->last_acked = 1;
}

/* W <- beta W (section 3.2). RTTmax falls by 5 % of its distance to RTTmin, since routes change. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	update_beta(s);
	update_alpha(s, f);
	if (s->min_rtt && s->max_rtt > s->min_rtt)
		s->max_rtt = s->min_rtt + (u64)(s->max_rtt - s->min_rtt) * 95 / 100;
	return most((u64)f->cwnd * s->beta / ONE, 2);
}

/* Delta restarts at the start of an episode, at each time-out, and at the end of the episode unless it was undone. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state <= TCP_CA_Disorder) {
		if (s->in_episode)
			s->last_event = now(f);
		s->in_episode = 0;
	} else if (!s->in_episode || f->state == TCP_CA_Loss) {
		s->before.last_event = s->last_event;
		s->before.max_rtt = s->max_rtt;
		s->before.old_max_rate = s->old_max_rate;
		s->in_episode = 1;
		s->last_event = now(f);
		s->count = 0;
	}
}

INLINE void take_back(struct state *s, struct flow *f)
{
	(void)f;
	if (!s->in_episode)
		return;
	s->last_event = s->before.last_event;
	s->max_rtt = s->before.max_rtt;
	s->old_max_rate = s->before.old_max_rate;
	s->in_episode = 0;
}

INLINE void started(struct state *s, struct flow *f)
{
	if (!s->sending)
		s->last_event = now(f);
	s->sending = 1;
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .started = started,
	.undone = take_back,
};

#include "hooks.h"
