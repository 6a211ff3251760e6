/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and arithmetic that the algorithms share.
 *
 * An algorithm is a file with functions over two structs: its state and the connection (`struct flow`). The file lists
 * these functions in `algorithm` and then includes hooks.h. The programs there fill `struct flow` from the socket, call
 * the functions and write the window back. The arithmetic is independent of sockets, so `replay`, which only tests
 * load, runs it on recorded events.
 *
 * | function        called by the kernel                                        Rust (roughlink_core::cc)
 * | begin           init: the connection is established                         Construct::new
 * | sample          pkts_acked: each ACK, before loss detection                 on_ack: measurements
 * | avoid           cong_avoid: each ACK that may raise the window              on_ack: growth
 * | ssthresh        ssthresh: an episode begins, loss, time-out or mark         on_congestion
 * | changed         set_state: loss recovery enters f->state                    Flow::state
 * | recovered       CA_EVENT_COMPLETE_CWR: a reduction is complete              on_recovered
 * | started         CA_EVENT_TX_START: the first segment after an idle period   on_sent: tx_start
 * | undone          undo_cwnd: the last episode was spurious                    on_undo
 *
 * An algorithm that defines PACED before including hooks.h controls the window and the pacing rate, also in recovery.
 * Instead of `sample` and `avoid` it has:
 *
 * | control         cong_control: each ACK                                      on_ack
 *
 * There and in `changed` it sets f->pacing_rate. BURST is the least number of segments in a burst (min_tso_segs);
 * without it, 2 segments as in the kernel.
 *
 * The kernel keeps 104 bytes per connection. An algorithm with more state defines STORED and leaves out `common`.
 *
 * Windows are in segments, as in the kernel. Fractions are integers, scaled by the power of two that their name or a
 * comment gives.
 *
 * Parameters: before including this file, an algorithm defines PARAMETERS(P) as P(name, scale) P(name, scale) and so
 * on, or as nothing. The loader sets `parameters.name` to the value of the Rust algorithm times `scale`, rounded. A
 * flag is 0 or 1.
 */
#ifndef ROUGHLINK_ALGORITHM_H
#define ROUGHLINK_ALGORITHM_H

#include "kernel.h"

#define MEMBER(name, scale) u32 name;
const volatile struct {
	PARAMETERS(MEMBER)
	u32 end;
} parameters SEC(".rodata.parameters") = {};

/* Parameter list for the loader: a name and its scale per line, in the order of the members. */
#define LINE(name, scale) #name " " #scale "\n"
const char slots[] SEC(".rodata.slots") = "" PARAMETERS(LINE);

/* State of the connection and the current ACK. A recorded event has the same layout. */
struct flow {
	u64 now_us;
	u32 kind; /* enum kind */
	u32 connection; /* counted from 1 */
	u32 mss;
	u32 cwnd, ssthresh; /* segments; ~0 = unlimited */
	u32 prior_cwnd, prior_ssthresh; /* before the episode */
	u32 in_flight; /* segments */
	u32 snd_una, snd_nxt; /* sequence numbers */
	u32 srtt_us; /* 0 = not yet measured */
	s32 rtt_us; /* sample of this ACK; -1 = none */
	u32 acked; /* bytes cumulatively acknowledged by this ACK */
	u32 segments; /* credited to growth */
	u8 state; /* enum tcp_ca_state */
	u8 may_grow; /* the window limited the sender */
	u16 family, local_port, remote_port; /* set only in OPENED events, like `remote` */
	u32 remote[4]; /* peer address, IPv4 in the first word */
	/* For paced algorithms, from here on. The kernel counts segments in its samples of the delivery rate. */
	u32 delivered; /* bytes newly acknowledged or SACKed by this ACK */
	u32 total_delivered; /* segments delivered so far */
	u64 pacing_rate; /* bytes per second, set by the algorithm; ~0 = unlimited */
	s32 sampled; /* segments delivered since the newest segment that this ACK delivers was sent; -1 = no sample */
	u32 interval_us; /* in which these were delivered; 0 = unknown */
	u32 losses; /* segments that this ACK showed to be lost */
	u8 app_limited; /* the sender had no more data when that segment was sent */
	u8 ecn_echo; /* the ACK carries ECE (RFC 3168) */
};
_Static_assert(sizeof(struct flow) == 120, "as in event.rs");

enum kind {
	OPENED = 1, ACK, CONGESTION, TIMEOUT, TIMEOUT_AGAIN, STATE, RECOVERED, UNDONE, STARTED, CLOSED, SAMPLE,
};

/* Each of the following has a separate map, which the loader finds by its section. */

/* Load record, TOML: the algorithm and its parameters. */
const volatile char description[4096] SEC(".rodata.what") = {};

/* Counters over all connections since loading. */
struct {
	u64 opened, closed, congestions, timeouts, undone, not_recorded, not_asked;
} counters SEC(".data.counters") = {};

/* Events that go into the ring: 0 none, 1 all except ACKs, 2 all. `roughlink cc stat` sets it. */
volatile u32 recording SEC(".data.recording") = 0;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 1 << 18);
} ring SEC(".maps");

/* Returns true if sequence number `a` is after `b` (RFC 9293 section 3.4). */
INLINE bool after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

INLINE u32 least(u32 a, u32 b)
{
	return a < b ? a : b;
}

INLINE u32 most(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* Returns a * b / c rounded down, exact even if a * b has 96 bits. c must not be 0. */
INLINE u64 times_over(u64 a, u32 b, u32 c)
{
	return a / c * b + a % c * b / c;
}

INLINE bool in_slow_start(const struct flow *f)
{
	return f->cwnd < f->ssthresh;
}

/* Slow start for `segments`, at most up to ssthresh (RFC 5681 section 3.1, RFC 3465). Returns the unused segments. */
INLINE u32 slow_start(struct flow *f, u32 segments)
{
	u32 room = f->ssthresh - f->cwnd;
	u32 used = least(segments, room);

	f->cwnd += used;
	return segments - used;
}

/*
 * Grows by one segment per `w` acknowledged ones, counted in `count` (RFC 5681 equation 3 in whole segments, as in
 * Linux).
 */
INLINE void additive_increase(struct flow *f, u32 *count, u32 w, u32 segments)
{
	u32 n = *count;

	w = most(w, 1);
	if (n >= w) {
		n = 0;
		f->cwnd++;
	}
	n += segments;
	if (n >= w) {
		u32 k = n / w;

		n -= k * w;
		f->cwnd += k;
	}
	*count = n;
}

/* Growth of NewReno: slow start, then a segment per window. */
INLINE void reno(struct flow *f, u32 *count)
{
	u32 left = f->segments;

	if (in_slow_start(f))
		left = slow_start(f, left);
	if (left)
		additive_increase(f, count, f->cwnd, left);
}

/* --- Between the kernel and the algorithm --- */

/* First member of the algorithm's state; with STORED, all that the kernel itself keeps for the connection. */
struct common {
	u32 connection;
	u32 una;
	u32 state; /* enum tcp_ca_state of the last set_state; see caught_up() */
};

#define CLOSED_FLOW { .rtt_us = -1 }

INLINE u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* Fills `f` from the socket. The compiler drops the fields that the algorithm does not read. */
INLINE void look(struct flow *f, struct sock *sk, const struct common *c)
{
	const struct tcp_sock *tp = (void *)sk;
	const struct inet_connection_sock *icsk = (void *)sk;

	f->now_us = tp->tcp_mstamp;
	f->connection = c->connection;
	f->mss = tp->mss_cache;
	f->cwnd = tp->snd_cwnd;
	f->ssthresh = tp->snd_ssthresh >= 0x7fffffff ? ~0u : tp->snd_ssthresh;
	f->prior_cwnd = tp->prior_cwnd;
	f->prior_ssthresh = tp->prior_ssthresh;
	f->in_flight = in_flight(tp);
	f->snd_una = tp->snd_una;
	f->snd_nxt = tp->snd_nxt;
	f->srtt_us = tp->srtt_us >> 3;
	f->state = BIT_FIELD(icsk, icsk_ca_state);
	f->rtt_us = -1;
}

/* Writes the algorithm's window and threshold to the socket, within the socket's limits. */
INLINE void write_back(struct sock *sk, const struct flow *f)
{
	struct tcp_sock *tp = (void *)sk;
	u32 cwnd = least(f->cwnd, tp->snd_cwnd_clamp);
	u32 ssthresh = f->ssthresh == ~0u ? 0x7fffffff : f->ssthresh;

	if (cwnd != tp->snd_cwnd)
		tp->snd_cwnd = most(cwnd, 1);
	if (ssthresh != tp->snd_ssthresh)
		tp->snd_ssthresh = ssthresh;
}

/*
 * Returns true if the window limited the last round, or if slow start used more than half of it (RFC 7661;
 * tcp_is_cwnd_limited).
 */
INLINE bool window_is_the_limit(const struct tcp_sock *tp)
{
	if (BIT_FIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

INLINE int record(const struct flow *f)
{
	struct flow *to;

	if (!f)
		return 0;
	to = bpf_ringbuf_reserve(&ring, sizeof *to, 0);
	if (!to) {
		__sync_fetch_and_add(&counters.not_recorded, 1);
		return 0;
	}
	*to = *f;
	bpf_ringbuf_submit(to, 0);
	return 0;
}

INLINE void note(struct flow *f, u32 kind, u32 level)
{
	if (recording < level)
		return;
	f->kind = kind;
	record(f);
}

#define COMMON(sk) ((struct common *)((struct inet_connection_sock *)(sk))->icsk_ca_priv)

/* Functions of an algorithm, as .begin = begin. Hooks without a function do nothing. */
struct state;
struct algorithm {
	void (*begin)(struct state *, struct flow *);
	void (*sample)(struct state *, struct flow *);
	void (*avoid)(struct state *, struct flow *);
	u32 (*ssthresh)(struct state *, struct flow *);
	void (*changed)(struct state *, struct flow *);
	void (*recovered)(struct state *, struct flow *);
	void (*started)(struct state *, struct flow *);
	void (*undone)(struct state *, struct flow *);
	void (*control)(struct state *, struct flow *);
};

#define CALL(what, s, f)                         \
	do {                                     \
		if (algorithm.what)              \
			algorithm.what((s), (f)); \
	} while (0)

#endif
