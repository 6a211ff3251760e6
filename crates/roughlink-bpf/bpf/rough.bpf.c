/* SPDX-License-Identifier: GPL-2.0 */
/*
 * roughlink's own algorithm, `rough` (crates/roughlink-core/src/cc/rough.rs): queueing delay as target, with losses
 * that are not congestion. The computation is the same as in Rust, function by function, in bytes and nanoseconds.
 *
 * Differences from simulation:
 * - The kernel counts delivered and lost data in segments, and times in microseconds.
 * - The window is rounded down to segments.
 * - The first ten segments are not paced.
 * - When the sender's own queue is full, Linux enters TCP_CA_CWR. The program responds as to a loss.
 * - When the path MTU falls, Linux enters TCP_CA_Loss. The program responds as to a time-out.
 */
#define PARAMETERS(P)                                                                       \
	P(queue_quarters, 1) P(pacing_percent, 1) P(rtt_window_ms, 1) P(startup_percent, 1) \
	P(jump_packets, 1) P(noise_percent, 1) P(max_loss_permille, 1) P(probe_rounds, 1)   \
	P(compete, 1) P(patience, 1) P(filled_percent, 1) P(empty_percent, 1)               \
	P(loss_percent, 1) P(attempt, 1) P(restart, 1) P(silence_ms, 1)                     \
	P(train_segments, 1) P(train_percent, 1)
#include "algorithm.h"

#define US 1000ull /* ns */
#define MS 1000000ull
#define SECOND 1000000000ull
#define NONE (~0ull) /* no RTT yet; unlimited */

#define MAX_STARTUP_LOSS 256 /* of a round, 1/1024 */
#define MAX_PROBE_LOSS 51 /* average, 1/1024 */
#define MEMORY 60 /* round trips in the window of the smallest and the largest RTT */
#define MAX_MEMORY (60 * SECOND) /* that these round trips may take */
#define PEAK_MEMORY 3 /* rounds that `peak` covers at most, in units of `patience` */
#define ATTEMPT_ROUNDS 2
#define MIN_JUMP MS /* of the RTT, on average; a single jump later counts as at most 8 times this */
#define TRAIN 10 /* segments */
#define MAX_JUMP 64 /* by which a train enlarges the window */
#define MAX_CURVE_MS 100000 /* so that products fit */

INLINE u64 least64(u64 a, u64 b)
{
	return a < b ? a : b;
}

INLINE u64 most64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* Returns a - b, at least 0. */
INLINE u64 beyond(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* --- Sliding extremes (rough/window.rs) --- */

/* Smallest value of a sliding window, kept in two halves; the largest as the smallest complement. */
struct sliding {
	u64 newer, older, since;
};

#define EMPTY { .newer = NONE, .older = NONE }

INLINE u64 smallest(const struct sliding *w)
{
	return least64(w->newer, w->older);
}

INLINE u64 largest(const struct sliding *w)
{
	return ~smallest(w);
}

INLINE void update(struct sliding *w, u64 now, u64 window, u64 value)
{
	u64 age = beyond(now, w->since);

	if (age >= window / 2) {
		w->older = age >= window ? NONE : w->newer;
		w->newer = NONE;
		w->since = now;
	}
	w->newer = least64(w->newer, value);
}

/* --- State --- */

enum phase { STARTUP, DELAY, ATTEMPT, COMPETE };

struct rounds {
	u64 count;
	u32 start; /* segments delivered at the start of the round */
	u64 lost, delivered; /* bytes */
	u64 last_rtt, jump, mean_jump;
	u64 max_rtts[2]; /* of this round and of the last */
	struct sliding least, largest; /* RTT of the last rounds */
};

/* CUBIC (RFC 9438), without slow start (rough/curve.rs). */
struct curve {
	u64 window, plateau;
	bool has_epoch;
	u64 start, k_ms, reno; /* the last in 1/256 bytes */
};

struct train {
	u64 first, last;
	u64 bytes; /* acknowledged after the first ACK */
};

struct state {
	u32 phase; /* enum phase */
	bool grows; /* startup: the last round raised the rate by a quarter */
	bool has_train;
	bool is_alerted; /* an episode of loss or marks has begun; the next ACK tells which */
	bool is_marked; /* until data that left after the last mark is acknowledged */
	u32 marked_at; /* segments delivered at the last mark */
	u32 timeouts; /* since the last delivery */
	u64 since; /* round in which the phase began */
	u64 initial_window, cwnd;
	s64 fraction; /* 1/256 bytes */
	struct rounds rounds;
	struct sliding min_rtt, max_rtt, standing;
	struct sliding rate; /* bytes per second */
	u64 queued_at; /* last round in which the flow had enough in the queue, or lost much */
	u64 rate_before;
	u64 noise;
	u64 loss; /* 1/1024 */
	struct curve curve;
	struct sliding peak; /* window in the last rounds */
	struct sliding in_use; /* bytes in flight in this round and the last */
	u64 delivered_at;
	u64 before_timeouts; /* window before the first of `timeouts` */
	struct train train;
};

/* --- Curve --- */

INLINE void curve_begin(struct curve *c, u64 window)
{
	c->window = c->plateau = window;
	c->has_epoch = 0;
}

INLINE void reduce(struct curve *c, u64 mss)
{
	c->plateau = c->window < c->plateau ? c->window * 17 / 20 : c->window;
	c->window = most64(c->window * 7 / 10, 2 * mss);
	c->has_epoch = 0;
}

INLINE u64 cube_root(u64 x)
{
	u64 root = 0;

	for (int bit = 20; bit >= 0; bit--) {
		u64 next = root | 1ull << bit;

		if (next * next * next <= x)
			root = next;
	}
	return root;
}

INLINE void grow(struct curve *c, u64 now, u64 srtt, u64 mss, u64 acked)
{
	u64 window = c->window, plateau = c->plateau, ms, distance, height, wanted;

	if (!c->has_epoch) {
		c->has_epoch = 1;
		c->start = now;
		c->k_ms = cube_root(beyond(plateau, window) * 1000 / mss * 2500000);
		c->reno = window * 256;
	}
	ms = (beyond(now, c->start) + srtt) / MS;
	distance = least64(ms < c->k_ms ? c->k_ms - ms : ms - c->k_ms, MAX_CURVE_MS);
	height = distance * distance / 1000 * distance / 1000 * 4 * mss / 10000;
	wanted = ms < c->k_ms ? beyond(plateau, height) : plateau + height;
	wanted = least64(most64(wanted, window), window + window / 2);
	c->reno += 256 * 9 * mss * acked / (17 * window);
	c->window = most64(window + (wanted - window) * acked / window, c->reno / 256);
}

/* --- Rounds --- */

INLINE void rounds_begin(struct rounds *r, u32 delivered)
{
	*r = (struct rounds){ .start = delivered, .least = EMPTY, .largest = EMPTY };
}

/* Returns true if a round ends, and its share of lost bytes in `share`, 1/1024. */
INLINE bool round_ends(struct rounds *r, const struct flow *f, u64 *share)
{
	u64 most;

	r->lost += (u64)f->losses * f->mss;
	r->delivered += f->delivered;
	if (after(r->start, f->total_delivered - f->sampled))
		return 0;
	*share = r->lost * 1024 / most64(r->lost + r->delivered, 1);
	r->lost = r->delivered = 0;
	r->start = f->total_delivered;
	r->count++;
	most = r->count <= 2 ? NONE : most64(r->mean_jump, MIN_JUMP) * 8; /* the average is not known at the start */
	r->mean_jump = (r->mean_jump * 7 + least64(r->jump, most)) / 8;
	r->jump = 0;
	r->max_rtts[1] = r->max_rtts[0];
	r->max_rtts[0] = 0;
	return 1;
}

INLINE void add_rtt(struct rounds *r, u64 rtt)
{
	if (r->last_rtt)
		r->jump = most64(r->jump, beyond(rtt, r->last_rtt));
	r->last_rtt = rtt;
	r->max_rtts[0] = most64(r->max_rtts[0], rtt);
	update(&r->least, r->count, parameters.patience, rtt);
	update(&r->largest, r->count, parameters.patience, ~rtt);
}

/* --- Algorithm --- */

INLINE u64 target_queue(u64 mss)
{
	return parameters.queue_quarters * mss / 4;
}

/* Returns the bandwidth-delay product: the bytes that the path carries in its smallest RTT. */
INLINE u64 bdp(const struct state *s)
{
	return largest(&s->rate) * (smallest(&s->min_rtt) / US) / 1000000;
}

INLINE u64 fitting_window(const struct state *s, u64 mss)
{
	return bdp(s) + target_queue(mss);
}

/* Returns the queueing delay without noise, and in `window` the window that keeps `target_queue` there. */
INLINE u64 target(const struct state *s, u64 mss, u64 *window)
{
	u64 min = smallest(&s->min_rtt), standing = most64(smallest(&s->standing), min);
	u64 queued = beyond(standing - min, s->noise);

	*window = queued ? target_queue(mss) * standing / queued : NONE;
	return queued;
}

/* Returns the transmission time of `bytes` at the delivery rate. */
INLINE u64 transmission_time(const struct state *s, u64 bytes)
{
	return bytes * SECOND / most64(largest(&s->rate), 1);
}

/* Returns true if the queueing delay of the last rounds, less `own`, never fell to `percent` of its largest. */
INLINE bool is_filled(const struct state *s, u32 percent, u64 own)
{
	u64 min = smallest(&s->min_rtt), low = smallest(&s->rounds.least), high = largest(&s->rounds.largest);

	return beyond(beyond(low, min), own) * 100 > beyond(high, min) * percent;
}

INLINE bool is_settled(const struct state *s)
{
	return s->rounds.count >= s->since + (s->phase == ATTEMPT ? ATTEMPT_ROUNDS : parameters.patience);
}

INLINE void begin_delay(struct state *s)
{
	if (s->phase == STARTUP)
		s->peak = (struct sliding)EMPTY;
	s->phase = DELAY;
	s->since = s->rounds.count;
	s->has_train = 0;
}

INLINE void begin_attempt(struct state *s)
{
	s->phase = ATTEMPT;
	s->since = s->rounds.count;
	s->cwnd = least64(s->cwnd, bdp(s));
}

INLINE void restart(struct state *s, const struct flow *f, u64 window)
{
	const struct sliding empty = EMPTY;

	s->phase = STARTUP;
	s->since = 0;
	s->cwnd = window;
	s->fraction = 0;
	rounds_begin(&s->rounds, f->total_delivered);
	s->min_rtt = s->max_rtt = s->standing = s->rate = s->peak = s->in_use = empty;
	s->queued_at = s->rate_before = 0;
	s->grows = 1;
	s->noise = s->loss = 0;
	curve_begin(&s->curve, s->initial_window);
	s->is_alerted = s->is_marked = 0;
	s->delivered_at = f->now_us * US;
	s->timeouts = s->before_timeouts = 0;
	s->has_train = 0;
}

/* Sets the window and the pacing rate (Rust: permit). */
INLINE void permit(const struct state *s, struct flow *f)
{
	u64 min = smallest(&s->min_rtt), window = most64(s->cwnd, 2 * f->mss), rtt = f->srtt_us * US;

	if (min != NONE)
		rtt = least64(smallest(&s->standing), most64(rtt, min));
	f->cwnd = window / f->mss;
	f->ssthresh = ~0u;
	f->pacing_rate = NONE;
	if (rtt && !s->has_train)
		f->pacing_rate = window * (s->phase == STARTUP ? 200 : parameters.pacing_percent) * 10000 / (rtt / US);
}

INLINE void begin(struct state *s, struct flow *f)
{
	s->initial_window = (u64)f->cwnd * f->mss;
	restart(s, f, s->initial_window);
	permit(s, f);
}

/*
 * Handles the first delivery after time-outs. After several in a long silence, starts over with a train and returns
 * true.
 */
INLINE bool resume_or_restart(struct state *s, const struct flow *f, u32 timeouts)
{
	u64 silence = beyond(f->now_us * US, s->delivered_at), before = s->before_timeouts;

	if (!parameters.restart)
		return 0;
	if (timeouts > 1 && silence > parameters.silence_ms * MS + f->srtt_us * US * 2) {
		/* The kernel may still count old data as in flight that was lost before the silence. */
		restart(s, f, (u64)f->in_flight * f->mss + most64(s->initial_window, TRAIN * f->mss));
		s->has_train = 1;
		s->train = (struct train){};
		return 1;
	}
	if (smallest(&s->min_rtt) != NONE)
		before = least64(before, fitting_window(s, f->mss));
	s->cwnd = most64(s->cwnd, before);
	return 0;
}

/* Reduces the window after a sign of congestion other than delay, and ends startup. */
INLINE void reduce_window(struct state *s, u64 mss)
{
	s->cwnd = most64(s->cwnd * 7 / 10, 2 * mss);
	s->peak = (struct sliding)EMPTY;
	reduce(&s->curve, mss);
	if (s->phase == STARTUP)
		begin_delay(s);
}

INLINE void learn(struct state *s, const struct flow *f, u64 loss)
{
	u64 packets = transmission_time(s, (u64)f->mss * parameters.jump_packets);
	u64 jump = s->rounds.mean_jump;
	bool is_congestion;

	s->noise = jump > packets ? jump * parameters.noise_percent / 100 : 0;
	if (smallest(&s->min_rtt) == NONE)
		return;
	s->loss = (s->loss * 5 + loss) / 6;
	if (s->loss >= MAX_PROBE_LOSS)
		s->queued_at = s->rounds.count;
	is_congestion = s->loss * 1000 > parameters.max_loss_permille * 1024ull;
	if (s->phase == STARTUP && (is_congestion || loss > MAX_STARTUP_LOSS)) {
		s->cwnd /= 2;
		begin_delay(s);
	}
	if (is_congestion) {
		s->loss = s->loss * 3 / 4;
		reduce_window(s, f->mss);
	}
	s->cwnd = most64(s->cwnd, 2 * f->mss);
}

INLINE void measure(struct state *s, const struct flow *f)
{
	u64 now = f->now_us * US, srtt = f->srtt_us * US;
	u64 memory = most64(parameters.rtt_window_ms * MS, least64(srtt * MEMORY, MAX_MEMORY));

	if (f->rtt_us > 0) {
		u64 rtt = f->rtt_us * US;

		add_rtt(&s->rounds, rtt);
		update(&s->min_rtt, now, memory, rtt);
		update(&s->max_rtt, now, memory, ~rtt);
		update(&s->standing, now, srtt / 2, rtt);
	}
	if (smallest(&s->min_rtt) != NONE && f->interval_us && f->sampled > 0) {
		u64 rate = (u64)f->sampled * f->mss * 1000000 / f->interval_us;

		if (!f->app_limited || rate > largest(&s->rate))
			update(&s->rate, now, srtt * 4, ~rate);
	}
}

INLINE void start_up(struct state *s, const struct flow *f, bool new_round, u64 credited)
{
	struct train *t = &s->train;
	u64 window, queued;

	if (new_round) {
		u64 rate = largest(&s->rate);

		s->grows = rate * 4 >= s->rate_before * 5;
		s->rate_before = rate;
		*t = (struct train){};
	}
	if (s->has_train) {
		if (t->first)
			t->bytes += f->delivered;
		else
			t->first = f->now_us * US;
		t->last = f->now_us * US;
		if (t->bytes >= parameters.train_segments * (u64)f->mss) {
			u64 fitting = t->bytes * smallest(&s->min_rtt) / most64(t->last - t->first, 1);

			fitting = fitting * parameters.train_percent / 100;
			s->has_train = 0;
			if (fitting > s->cwnd) {
				s->cwnd = least64(fitting, MAX_JUMP * s->cwnd);
				begin_delay(s);
				return;
			}
		}
	}
	queued = target(s, f->mss, &window);
	if (s->cwnd > window && (!s->grows || queued * 100 > smallest(&s->min_rtt) * parameters.startup_percent)) {
		s->cwnd = fitting_window(s, f->mss);
		begin_delay(s);
	} else {
		s->cwnd += credited;
	}
}

INLINE void follow_delay(struct state *s, const struct flow *f, bool new_round, u64 credited)
{
	u64 window, acked, doublings, step;
	s64 whole;
	bool up;

	target(s, f->mss, &window);
	up = s->cwnd < window;
	if (!up)
		s->queued_at = s->rounds.count;
	doublings = least64(beyond(s->rounds.count - most64(s->queued_at, s->since), parameters.probe_rounds), 16);
	acked = !up ? f->delivered : s->phase == ATTEMPT ? 0 : credited;
	window = most64(s->cwnd, 1);
	step = 256 * acked * least64(target_queue(f->mss) << doublings, window) / window;
	s->fraction += up ? step : -step;
	/* Toward 0, as in Rust; clang has no signed division for BPF. */
	whole = (s->fraction + (s->fraction < 0 ? 255 : 0)) >> 8;
	s->cwnd = (s64)s->cwnd + whole < 2 * (s64)f->mss ? 2 * f->mss : s->cwnd + whole;
	s->fraction -= whole * 256;
	if (s->phase == ATTEMPT)
		grow(&s->curve, f->now_us * US, f->srtt_us * US, f->mss, credited);
	if (!parameters.compete || !new_round || !is_settled(s))
		return;
	if (s->phase == DELAY) {
		if (is_filled(s, parameters.filled_percent, 0)) {
			curve_begin(&s->curve, most64(largest(&s->peak), 4 * f->mss));
			begin_attempt(s);
		}
	} else if (is_filled(s, parameters.empty_percent, transmission_time(s, f->mss))) {
		/* Packets leave in pairs, so one packet of the flow itself may be in the queue. */
		s->phase = COMPETE;
		s->since = s->rounds.count;
	} else {
		begin_delay(s);
	}
}

/* Responds to a mark, or to the first loss of an episode. */
INLINE void respond(struct state *s, const struct flow *f, bool is_mark)
{
	u64 min = smallest(&s->min_rtt), range = beyond(largest(&s->max_rtt), min);
	u64 delay = beyond(most64(s->rounds.max_rtts[0], s->rounds.max_rtts[1]), min);
	bool is_late = min != NONE && delay >= range * parameters.loss_percent / 100;

	if (s->phase == COMPETE && (is_late || is_mark)) {
		reduce(&s->curve, f->mss);
		s->cwnd = s->curve.window;
		if (parameters.attempt && is_settled(s))
			begin_attempt(s);
	} else if (is_mark) {
		reduce_window(s, f->mss);
	}
}

INLINE void on_ack(struct state *s, const struct flow *f)
{
	u64 loss, credited;
	u32 timeouts = s->timeouts;
	bool new_round, is_mark;

	if (f->sampled < 0)
		return;
	s->timeouts = 0;
	if (timeouts && resume_or_restart(s, f, timeouts))
		return;
	/* One response per window of data (RFC 3168 section 6.1.2). */
	s->is_marked &= after(s->marked_at, f->total_delivered - f->sampled);
	is_mark = f->ecn_echo && !s->is_marked;
	if (is_mark) {
		s->is_marked = 1;
		s->marked_at = f->total_delivered;
	}
	if ((s->is_alerted && !f->ecn_echo) || is_mark)
		respond(s, f, is_mark);
	s->is_alerted = 0;
	s->delivered_at = f->now_us * US;
	new_round = round_ends(&s->rounds, f, &loss);
	if (new_round)
		learn(s, f, loss);
	if (!s->rounds.count)
		return; /* this data left before the flow started */
	measure(s, f);
	if (smallest(&s->min_rtt) == NONE) {
		s->cwnd += f->delivered;
		return;
	}
	update(&s->peak, s->rounds.count, parameters.patience * PEAK_MEMORY, ~s->cwnd);
	/* A window of which less than half is in use is no evidence for a larger one (as in Linux's slow start). */
	update(&s->in_use, s->rounds.count, 2, ~((u64)f->in_flight * f->mss + f->delivered));
	credited = 2 * largest(&s->in_use) < s->cwnd ? 0 : f->delivered;
	switch (s->phase) {
	case STARTUP:
		start_up(s, f, new_round, credited);
		break;
	case DELAY:
	case ATTEMPT:
		follow_delay(s, f, new_round, credited);
		break;
	default:
		grow(&s->curve, f->now_us * US, f->srtt_us * US, f->mss, credited);
		s->cwnd = s->curve.window;
		if (new_round && is_settled(s) && !is_filled(s, parameters.empty_percent, 0))
			begin_delay(s);
	}
}

INLINE void control(struct state *s, struct flow *f)
{
	on_ack(s, f);
	permit(s, f);
}

/* Notes that an episode begins. */
INLINE u32 ssthresh(struct state *s, struct flow *f)
{
	s->is_alerted = 1;
	return f->ssthresh;
}

INLINE void changed(struct state *s, struct flow *f)
{
	if (f->state == TCP_CA_Loss) {
		if (!s->timeouts) {
			s->before_timeouts = s->cwnd;
			reduce(&s->curve, f->mss);
		}
		s->timeouts++;
		s->cwnd = f->mss;
		s->is_alerted = 0;
	}
	permit(s, f);
}

static const struct algorithm algorithm = {
	.begin = begin, .control = control, .changed = changed, .ssthresh = ssthresh,
};

#define PACED
#define STORED
#include "hooks.h"
