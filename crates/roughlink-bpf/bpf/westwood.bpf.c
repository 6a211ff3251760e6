/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Westwood+ (Grieco and Mascolo, ACM CCR 34(2), 2004): Reno, but the window after a loss is the estimated bandwidth
 * times the smallest RTT. As in Linux, fast recovery starts with half the window and ends with this product.
 *
 * Scales: bandwidth in 1/256 byte/s. A sample is rounded down, and each filter rounds to nearest, which adds an error
 * of up to 1 / (2 (1 - memory)) units. With 7/8 the estimate is off by at most 9 units, 0.04 byte/s. Samples are
 * limited to 2^36 byte/s (550 Gbit/s). `memory` is in 1/65536 and below 1.
 */
#define PARAMETERS(P) P(memory, 65536) P(min_sample_ms, 1000) P(jiffy_ms, 1000) P(forget_rtt, 1)
#include "algorithm.h"

#define ONE 65536
#define BYTE_PER_S 256

struct state {
	struct common common;
	u64 since; /* us: when the current sample began */
	u64 delivered; /* bytes in it */
	u64 bandwidth, kept; /* after both filters, after the first; 1/256 byte/s */
	u64 announced; /* bytes counted for duplicate ACKs */
	u32 rtt, min_rtt; /* us; 0 = none yet */
	u32 count; /* segments acknowledged since the last increase */
	u8 forget; /* the next ACK restarts the smallest RTT */
	u8 halved; /* ssthresh was called, and the state has not changed since */
};

INLINE void begin(struct state *s, struct flow *f)
{
	s->since = f->now_us;
	s->delivered = s->bandwidth = s->kept = s->announced = 0;
	s->rtt = s->min_rtt = s->count = 0;
	s->forget = 1;
	s->halved = 0;
}

/* memory old + (1 - memory) new, rounded to nearest. */
INLINE u64 filtered(u64 old, u64 new)
{
	u64 m = least(parameters.memory, ONE - 1);

	return (old * m + new * (ONE - m) + ONE / 2) / ONE;
}

/* The paper's b_k = d_k / Delta_k, one per RTT, and its low-pass filter, twice in a row. */
INLINE void close_sample(struct state *s, const struct flow *f)
{
	u64 interval = f->now_us - s->since;
	u64 b, limit = 1ull << 36;

	if (!s->rtt || interval <= most(s->rtt, parameters.min_sample_ms /* us */))
		return;
	b = (s->delivered < limit ? s->delivered : limit - 1) * (1000000 * BYTE_PER_S) / interval;
	if (b > limit * BYTE_PER_S)
		b = limit * BYTE_PER_S;
	if (!s->kept && !s->bandwidth) {
		s->kept = s->bandwidth = b;
	} else {
		s->kept = filtered(s->kept, b);
		s->bandwidth = filtered(s->bandwidth, s->kept);
	}
	s->delivered = 0;
	s->since = f->now_us;
}

/* AckedCount: a duplicate ACK counts as one segment; the next cumulative ACK counts the remaining bytes. */
INLINE u32 delivered(struct state *s, const struct flow *f)
{
	u32 more;

	if (!f->acked) {
		s->announced += f->mss;
		return f->mss;
	}
	if (f->acked <= f->mss)
		return f->acked;
	if (s->announced >= f->acked) {
		s->announced -= f->acked; /* a delayed ACK, or one that follows a retransmission */
		return f->mss;
	}
	more = f->acked - s->announced;
	s->announced = 0;
	return more;
}

INLINE void sample(struct state *s, struct flow *f)
{
	u32 jiffy = parameters.jiffy_ms; /* us */

	close_sample(s, f);
	s->delivered += delivered(s, f);
	/* Values of the previous ACK. */
	if (s->rtt) {
		s->min_rtt = s->forget ? s->rtt : least(s->min_rtt, s->rtt);
		s->forget = 0;
	}
	if (f->rtt_us > 0)
		s->rtt = jiffy ? ((u64)f->rtt_us + jiffy - 1) / jiffy * jiffy : (u32)f->rtt_us;
}

INLINE void avoid(struct state *s, struct flow *f)
{
	if (f->may_grow)
		reno(f, &s->count);
}

/* The paper's BWE RTTmin, bytes rounded to nearest, in segments, at least two. */
INLINE u32 capacity(const struct state *s, const struct flow *f)
{
	u64 w = (times_over(s->bandwidth, s->min_rtt, 1000000) + BYTE_PER_S / 2) / BYTE_PER_S / most(f->mss, 1);

	return w < 0x7fffffff ? most(w, 2) : 0x7fffffff;
}

INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	s->count = 0;
	s->halved = 1;
	return most(f->cwnd / 2, 2);
}

/* Handles a time-out, which ssthresh() cannot recognize: only the state entered next shows it. */
INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss) {
		if (s->halved)
			f->ssthresh = capacity(s, f);
		if (parameters.forget_rtt)
			s->forget = 1;
		s->count = 0;
	}
	s->halved = 0;
}

INLINE void recovered(struct state *s, struct flow *f)
{
	f->cwnd = f->ssthresh = capacity(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .sample = sample, .avoid = avoid, .ssthresh = ssthresh, .changed = changed, .recovered = recovered,
};

#include "hooks.h"
