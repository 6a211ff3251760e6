/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TCP Wave (Abdelsalam, Luglio, Roseti, Zampognaro, ICETE 2016), with the measurements of roughlink's `wave-fr`: a
 * train is the delivered part of a burst, SACKed data included. BPF timers cannot send from a socket, so TCP's pacing
 * clocks the bursts. One packet of BURST segments (min_tso_segs) leaves per interval, under a window that never limits
 * the sender.
 *
 * Scales: times in us; queueing_share, max_alpha, blind_factor and filter weights in 1/65536. The error is 1 us per
 * filter step.
 *
 * Differences from simulation:
 * - The kernel gives the send time of the last segment that an ACK delivers, not of each one.
 * - A train is complete at the first ACK of a later burst, not at its own last byte.
 * - The first ten segments are not paced.
 * - Retransmissions are paced with the other segments and do not shorten the next burst.
 */
#define PARAMETERS(P)                                                                        \
	P(burst0, 1) P(txtime0_ms, 1000) P(min_txtime_ms, 1000) P(beta_ms, 1000)             \
	P(queueing_share, 65536) P(max_alpha, 65536) P(blind_factor, 65536) P(min_train, 1)
#include "algorithm.h"

#define ONE 65536
/* Window that never limits the sender: the receive window and the clock do. */
#define OPEN_WINDOW 65535
/* Largest memory of a segment, a power of two plus headers. The kernel computes the send buffer from it in an int. */
#define IN_MEMORY(mss) (2 * ((mss) + 1024) + 512)

struct state {
	struct common common;
	u32 interval; /* TxTime */
	u32 dispersion; /* duration of a whole burst's train, filtered; 0 = not measured */
	u32 min_rtt, max_rtt, avg_rtt; /* us; 0 = none yet */
	u32 skip; /* trains to pass over before the next update */
	/* The train under way: */
	u32 sent; /* when its burst left, low 32 bits of us */
	u32 rtt; /* of its first ACK; 0 = no ACK yet */
	u32 first, last; /* ACKs */
	u32 bytes, first_bytes;
};

INLINE u32 burst(void)
{
	return most(parameters.burst0, 1);
}

INLINE void open_up(struct state *s, struct flow *f)
{
	f->pacing_rate = (u64)burst() * f->mss * 1000000 / most(s->interval, 1);
	f->cwnd = least(OPEN_WINDOW, 0x7fffffffu / 3 / IN_MEMORY(f->mss));
	f->ssthresh = ~0u;
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->interval = parameters.txtime0_ms;
	s->dispersion = s->min_rtt = s->max_rtt = s->avg_rtt = s->skip = 0;
	s->sent = s->rtt = s->first = s->last = s->bytes = s->first_bytes = 0;
	open_up(s, f);
}

/* `a` with weight `w` / 65536, else `b`. */
INLINE u32 weighted(u32 a, u32 w, u32 b)
{
	return ((u64)a * w + (u64)b * (ONE - w)) / ONE;
}

/* Section 3.2: computes the interval of the next bursts from a complete train. */
INLINE void update(struct state *s, u32 whole)
{
	u32 rtt = s->rtt, least_rtt = s->min_rtt ? least(s->min_rtt, rtt) : rtt;
	u32 behind = s->bytes - s->first_bytes;
	u32 spread = s->last - s->first, sample, queueing;

	/* The longer the queue, the less a sample counts. */
	s->avg_rtt = s->avg_rtt ? weighted(s->avg_rtt, (u64)(rtt - least_rtt) * ONE / most(rtt, 1), rtt) : least_rtt;
	queueing = s->avg_rtt > least_rtt ? s->avg_rtt - least_rtt : 0;
	/* The spread covers the segments after the first ACK: scale it to a whole burst. */
	sample = (u64)spread * whole / most(behind, 1);
	if (sample) {
		u32 before = s->dispersion;

		if (before && sample > before) {
			/* Follow a slower measurement only as far as the measured queue confirms it. */
			u32 alpha = least((u64)queueing * ONE / most(parameters.beta_ms, 1), parameters.max_alpha);

			s->dispersion = weighted(before, ONE - least(alpha, ONE), sample);
		} else {
			s->dispersion = sample;
		}
	}
	if (queueing > parameters.beta_ms) {
		/* Adjustment: restart from the longest interval, after the trains in flight. */
		s->skip = s->avg_rtt / most(s->interval, 1);
		s->min_rtt = 0;
		s->avg_rtt = s->max_rtt;
		s->interval = parameters.txtime0_ms;
		return;
	}
	if (s->dispersion)
		s->interval = s->dispersion + (u64)queueing * parameters.queueing_share / ONE;
	else
		s->interval = (u64)s->interval * parameters.blind_factor / ONE;
	s->interval = least(most(s->interval, parameters.min_txtime_ms), parameters.txtime0_ms);
}

INLINE void complete(struct state *s, const struct flow *f)
{
	u32 whole = burst() * f->mss;

	if (s->rtt && s->bytes >= parameters.min_train * f->mss) {
		if (s->skip)
			s->skip--;
		else
			update(s, whole);
	}
	s->rtt = 0;
}

INLINE void control(struct state *s, struct flow *f)
{
	u32 now = f->now_us, sent = now - f->rtt_us;

	/* Drop a train that stays incomplete for 18 minutes. The 32-bit time comparison would wrap after 36. */
	if (s->rtt && now - s->last > 1u << 30)
		s->rtt = 0;
	/* Take no sample from a retransmission: its ACK may belong to either copy. */
	if (f->delivered && f->rtt_us > 0 && (!s->rtt || !after(s->sent, sent))) {
		if (s->rtt && sent != s->sent)
			complete(s, f);
		if (!s->rtt) {
			s->sent = sent;
			s->rtt = f->rtt_us;
			s->first = now;
			s->bytes = 0;
			s->first_bytes = f->delivered;
			s->min_rtt = s->min_rtt ? least(s->min_rtt, s->rtt) : s->rtt;
			s->max_rtt = most(s->max_rtt, s->rtt);
		}
		s->last = now;
		s->bytes += f->delivered;
		if (s->bytes >= burst() * f->mss)
			complete(s, f);
	}
	open_up(s, f);
}

/* Section 2.2: restarts the measurements after a time-out. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss) {
		s->interval = parameters.txtime0_ms;
		s->min_rtt = 0;
		s->rtt = 0;
	}
	open_up(s, f);
}

/* Keeps the bursts unchanged. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	(void)s;
	return f->ssthresh;
}

static const struct algorithm algorithm = {
	.begin = begin, .control = control, .changed = changed, .ssthresh = ssthresh,
};

#define PACED
#define BURST burst()
#include "hooks.h"
