/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a block I/O takes, learnt online: one model for each device, operation and depth.
 *
 * A line in the I/O's size, by weighted least squares with forgetting. The noise of a device grows
 * with the time that an I/O takes, so errors are relative: each I/O has the weight
 * (time at the mean size / its predicted time)^2, and its error is a share of the smaller of
 * what was predicted and what it took: twice as long and half as long are both the error 1.
 *
 * Times have heavy tails. What is learnt from an I/O is its error up to twice the spread, which is
 * the median of the errors (Huber's M-estimator of location; P. J. Huber, Robust Statistics, 1981,
 * chapters 4 and 7). Where far more I/Os than not are out of the way on the same side, the device
 * has changed, and the model begins anew.
 *
 * The spread and the quantiles are followed in steps, up by p and down by 1 - p, in proportion to
 * themselves (H. Robbins, S. Monro, A stochastic approximation method, 1951).
 *
 * For BPF: no floating point, no signed division, no loops, nothing that can overflow; each product
 * has its bits beside it. Who calls model_observe() sees to it that no other CPU does so with the
 * same model at once. model_predict() may meet a model that is being written; its prediction is
 * then off, but in order and in range.
 *
 * The including file has <stdbool.h>, <linux/types.h> and __always_inline.
 */
#ifndef REVEILLE_MODEL_H
#define REVEILLE_MODEL_H

/* Larger or longer I/Os are refused: 32 MiB, 17 s. */
#define MODEL_MOST_SECTORS (1ULL << 16)
#define MODEL_MOST_NS (1ULL << 34)

/* I/Os before the first prediction, and before the next one after a change. */
#define MODEL_FEWEST 5
/* I/Os until which the spread is followed in larger steps, and the quantiles are the spread's. */
#define MODEL_YOUNG 48
/* The line remembers 64 I/Os. */
#define MODEL_MEMORY_SHIFT 6
#define MODEL_MEMORY (1U << MODEL_MEMORY_SHIFT)
/* I/Os that the correlation remembers. */
#define MODEL_SEEN_MEMORY 256
/*
 * So many more I/Os out of the way on one side than not are a change. With one I/O in ten out of
 * the way by chance that is seen at about one I/O in 10^9, with one in five at one in 10^6.
 */
#define MODEL_CHANGE 10

/* Sizes are kept in 2^-8 sectors, mean times in 2^-8 ns. */
#define MODEL_FINE 8
/* Factors of averages are in 2^-16. */
#define MODEL_ONE 65536ULL
/* Roots of weights are in 2^-12. */
#define MODEL_ROOT_SHIFT 12
#define MODEL_MOST_ROOT (1ULL << 14)
/* Errors are shares of a time, in 2^-20, and at most 255. */
#define MODEL_SHARE_SHIFT 20
#define MODEL_WHOLE (1ULL << MODEL_SHARE_SHIFT)
#define MODEL_MOST_ERROR (255 * MODEL_WHOLE)
/* The spread that a new model supposes. */
#define MODEL_FIRST_SPREAD (MODEL_WHOLE / 4)
/* A device without noise has not changed where it takes a nanosecond more. */
#define MODEL_LEAST_SPREAD (MODEL_WHOLE / 256)
/* Above this a change is not distinguishable from noise. */
#define MODEL_MOST_SPREAD (2 * MODEL_WHOLE)
/* The quantiles of 5% and 90% where the noise is normal, in sixteenths of the spread. */
#define MODEL_NORMAL_EARLY 39
#define MODEL_NORMAL_LATE 30
/* In spreads. Where the noise is normal, the spread is 0.67 standard deviations, and this is
 * Huber's 1.345 standard deviations. */
#define MODEL_CLIP 2
/* In spreads. An I/O beyond is out of the way: 2.7 standard deviations. */
#define MODEL_FAR 4
/* In spreads. Further out no I/O counts in the correlation, or one pause of a hypervisor would be
 * all that it shows. */
#define MODEL_SEEN_CLIP 8
/* Slopes are in 2^-12 ns per sector, and at most 16 ms per sector. */
#define MODEL_SLOPE_SHIFT 12
#define MODEL_MOST_SLOPE (1ULL << 36)

/* 128 bytes. All zero is a new one. */
struct model {
	/* I/Os that were learnt from. */
	__u64 count;
	/* I/Os that were refused: no size, no time, or absurd ones. */
	__u64 refused;
	/* The line: the sum of the weights of the I/Os that are remembered, 2^-16; their means, in
	 * 2^-8 sectors and 2^-8 ns; their weighted variance and covariance, in 2^-8 sectors^2 and
	 * 2^-8 sectors ns. */
	__u64 weight;
	__u64 mean_sectors;
	__u64 mean_ns;
	__u64 var;
	__s64 cov;
	/* For the correlation: means as above, variances and covariance without weights, in
	 * 2^-8 sectors^2, ns^2 and 2^-8 sectors ns. */
	__u64 seen_sectors;
	__u64 seen_ns;
	__u64 seen_var_sectors;
	__u64 seen_var_ns;
	__s64 seen_cov;
	/* I/Os since the model began or began anew; stops at 2^16. */
	__u32 age;
	/* The median of the errors, 2^-20. */
	__u32 spread;
	/* Quantiles of the errors, 2^-20: one I/O in twenty is complete before ns / (1 + early),
	 * one in ten after ns * (1 + late). */
	__u32 early;
	__u32 late;
	/* I/Os out of the way less I/Os that were not; above 0 too long, below 0 too short. */
	__s32 run;
	/* Times that the model began anew. */
	__u32 changes;
	/* I/Os in var and cov; stops at 64. */
	__u32 informed;
	/* I/Os of unknown sizes less I/Os of known ones. */
	__u32 strange;
};

struct prediction {
	__u64 ns;	/* from issue to completion, 1 to 2^34 */
	__u64 early_ns; /* the 5% quantile; not above ns */
	__u64 late_ns;	/* the 90% quantile; not below ns, at most 2^34 */
};

/* The line's value for a size. */
struct model_line {
	__u64 ns;   /* 1 to 2^34 */
	__u64 root; /* of the weight, 2^-12; 1 to 2^14 */
	bool known; /* the size is near enough to what was seen */
};

static __always_inline __u64 model_distance(__u64 a, __u64 b)
{
	return a > b ? a - b : b - a;
}

/* value * factor / 2^16, for any value below 2^63 and a factor up to 2^16 */
static __always_inline __u64 model_scaled(__u64 value, __u64 factor)
{
	return (value >> 16) * factor + (((value & 0xffff) * factor) >> 16);
}

static __always_inline __u64 model_magnitude(__s64 value)
{
	return value < 0 ? -value : value;
}

/* The average moves by the factor's share towards the value; rounded up, so that it gets there. */
static __always_inline __u64 model_average(__u64 average, __u64 value, __u64 factor)
{
	__u64 distance = model_distance(value, average);
	__u64 step = model_scaled(distance, factor);

	if (step < distance)
		step++;
	return value > average ? average + step : average - step;
}

/* The same with signs; both below 2^62 in magnitude, so that their difference fits. */
static __always_inline __s64 model_signed_average(__s64 average, __u64 value, bool negative,
						  __u64 factor)
{
	__s64 step = model_scaled(value, factor);
	__s64 lost = model_scaled(model_magnitude(average), factor);

	average += average < 0 ? lost : -lost;
	return negative ? average - step : average + step;
}

/* The root of the weight of an I/O that takes ns, which is not 0. */
static __always_inline __u64 model_root(__u64 mean_ns, __u64 ns)
{
	__u64 root = (mean_ns << MODEL_ROOT_SHIFT) / ns; /* 34 + 12 bits */

	if (root > MODEL_MOST_ROOT)
		return MODEL_MOST_ROOT;
	return root ? root : 1;
}

static __always_inline void model_line(const struct model *m, __u32 sectors,
				       struct model_line *line)
{
	__u64 size = (__u64)sectors << MODEL_FINE;
	__u64 mean_sectors = m->mean_sectors;
	__u64 from = model_distance(size, mean_sectors);
	__u64 mean_ns = m->mean_ns >> MODEL_FINE;
	__u64 var = m->var;
	__s64 cov = m->cov;
	__u64 slope = 0, rise, far;

	/* Never falling: no device is faster for more, but noise can look like it. */
	if (cov > 0 && var) {
		if ((__u64)cov >> (63 - MODEL_SLOPE_SHIFT))
			slope = ((__u64)cov / var) << MODEL_SLOPE_SHIFT;
		else
			slope = ((__u64)cov << MODEL_SLOPE_SHIFT) / var;
		if (slope > MODEL_MOST_SLOPE)
			slope = MODEL_MOST_SLOPE;
	}
	/* 36 + 24 bits */
	rise = (slope * from) >> (MODEL_SLOPE_SHIFT + MODEL_FINE);
	if (size >= mean_sectors)
		line->ns = mean_ns + rise;
	else
		line->ns = mean_ns > rise ? mean_ns - rise : 0;
	if (line->ns > MODEL_MOST_NS)
		line->ns = MODEL_MOST_NS;
	/* Down there a steep line knows nothing. */
	line->known = line->ns >= mean_ns >> 4;
	if (!line->known)
		line->ns = mean_ns >> 4;
	if (!line->ns)
		line->ns = 1;
	line->root = model_root(mean_ns, line->ns);
	/*
	 * The slope's own error makes one of about spread * far / sqrt(informed * var) here: where
	 * that is more than the spread, nothing is known. Of the mean size everything is.
	 */
	far = (from * line->root) >> MODEL_ROOT_SHIFT; /* 26 bits */
	if ((far * far) >> MODEL_FINE > m->informed * var)
		line->known = false;
}

/* ns * (1 + share), at most MODEL_MOST_NS */
static __always_inline __u64 model_longer(__u64 ns, __u64 share)
{
	/* 34 + 28 bits */
	ns = (ns * (MODEL_WHOLE + share)) >> MODEL_SHARE_SHIFT;
	return ns < MODEL_MOST_NS ? ns : MODEL_MOST_NS;
}

/* ns / (1 + share), at least 1 */
static __always_inline __u64 model_shorter(__u64 ns, __u64 share)
{
	ns = (ns << MODEL_SHARE_SHIFT) / (MODEL_WHOLE + share);
	return ns ? ns : 1;
}

/*
 * The time that is learnt for an error. Noise that makes an I/O as often twice as long as half as
 * long is not to move the line, so the step is the same both ways: error / (1 + error / 2), which
 * is about the logarithm of (1 + error).
 */
static __always_inline __u64 model_learnt(__u64 ns, __u64 err, bool longer)
{
	/* 25 + 21 bits */
	__u64 share = (err << (MODEL_SHARE_SHIFT + 1)) / (2 * MODEL_WHOLE + err);

	if (longer)
		return model_longer(ns, share);
	if (share > MODEL_WHOLE - MODEL_WHOLE / 8)
		share = MODEL_WHOLE - MODEL_WHOLE / 8;
	return (ns * (MODEL_WHOLE - share)) >> MODEL_SHARE_SHIFT;
}

/* A step of a quantile: up where the error was beyond, down where not. */
static __always_inline __u32 model_step(__u64 at, bool beyond, __u64 up, __u64 down)
{
	if (beyond)
		return at + up < MODEL_MOST_ERROR ? at + up : MODEL_MOST_ERROR;
	return at > down ? at - down : 0;
}

/* What is learnt from an error of an I/O whose size the line knows. */
static __always_inline void model_errs(struct model *m, __u64 err, bool longer)
{
	__u64 spread = m->spread, step;

	step = m->age < MODEL_YOUNG ? spread >> 3 : spread >> 4;
	spread = err > spread ? spread + step : spread - step;
	if (spread < MODEL_LEAST_SPREAD)
		spread = MODEL_LEAST_SPREAD;
	if (spread > MODEL_MOST_SPREAD)
		spread = MODEL_MOST_SPREAD;
	m->spread = spread;

	if (m->age < MODEL_YOUNG) {
		m->early = spread * MODEL_NORMAL_EARLY / 16;
		m->late = spread * MODEL_NORMAL_LATE / 16;
		return;
	}
	/* 0.95 and 0.05 of an eighth; 0.9 and 0.1. At least 4096 / 160 = 25, so nothing stalls. */
	step = m->early > spread ? m->early : spread;
	m->early = model_step(m->early, !longer && err > m->early, step * 19 / 160, step / 160);
	step = m->late > spread ? m->late : spread;
	m->late = model_step(m->late, longer && err > m->late, step * 9 / 80, step / 80);
}

/* An I/O between the clip and the far limit is no sign of a change. */
static __always_inline __s32 model_run(__s32 run, __u64 err, bool longer, __u64 clip, __u64 far)
{
	bool on = longer ? run >= 0 : run <= 0;

	if (err > far && on)
		return longer ? run + 1 : run - 1;
	if (err > clip && on)
		return run;
	return run > 0 ? run - 1 : run < 0 ? run + 1 : 0;
}

/* size is in 2^-8 sectors */
static __always_inline void model_learn_line(struct model *m, __u64 size, __u64 ns, __u64 root)
{
	__u64 time = ns << MODEL_FINE;
	__u64 weight = (root * root) >> (2 * MODEL_ROOT_SHIFT - 16); /* 20 bits */
	__u64 from, later, square, product, factor, rest;
	bool falling, near;

	if (!weight)
		weight = 1;
	m->weight = m->weight - (m->weight >> MODEL_MEMORY_SHIFT) + weight;
	factor = m->weight ? (weight << 16) / m->weight : MODEL_ONE;
	if (factor > MODEL_ONE)
		factor = MODEL_ONE;
	rest = MODEL_ONE - factor;

	falling = (size > m->mean_sectors) != (time > m->mean_ns);
	from = model_distance(size, m->mean_sectors);
	near = from < m->mean_sectors >> 4;
	from = (from * root) >> MODEL_ROOT_SHIFT;
	later = model_distance(time, m->mean_ns) >> MODEL_FINE;
	later = (later * root) >> MODEL_ROOT_SHIFT;
	m->mean_sectors = model_average(m->mean_sectors, size, factor);
	m->mean_ns = model_average(m->mean_ns, time, factor);
	square = model_scaled((from * from) >> MODEL_FINE, rest);
	product = model_scaled(from * later, rest); /* 26 + 36 bits */
	/*
	 * An I/O of about the mean size shows nothing of the slope, and makes nothing of it
	 * forgotten: what is known of large I/Os outlasts any number of small ones.
	 */
	if (near || !square)
		return;
	if (m->informed < MODEL_MEMORY)
		m->informed++;
	factor = MODEL_ONE / (m->informed ? m->informed : 1);
	m->var = model_average(m->var, square, factor);
	m->cov = model_signed_average(m->cov, product, falling, factor);
}

static __always_inline void model_learn_correlation(struct model *m, __u64 size, __u64 ns)
{
	__u64 time = ns << MODEL_FINE;
	__u64 memory = m->age < MODEL_SEEN_MEMORY ? m->age : MODEL_SEEN_MEMORY;
	__u64 factor = MODEL_ONE / (memory ? memory : 1);
	__u64 rest = MODEL_ONE - factor;
	bool falling = (size > m->seen_sectors) != (time > m->seen_ns);
	__u64 from = model_distance(size, m->seen_sectors);
	__u64 later = model_distance(time, m->seen_ns) >> MODEL_FINE;
	__u64 square, product;

	/* The square has to fit: beyond 2 s from the mean a time counts as 2 s. */
	if (later > 1ULL << 31)
		later = 1ULL << 31;
	m->seen_sectors = model_average(m->seen_sectors, size, factor);
	m->seen_ns = model_average(m->seen_ns, time, factor);
	square = model_scaled((from * from) >> MODEL_FINE, rest);
	m->seen_var_sectors = model_average(m->seen_var_sectors, square, factor);
	square = model_scaled(later * later, rest);
	m->seen_var_ns = model_average(m->seen_var_ns, square, factor);
	product = model_scaled(from * later, rest);
	m->seen_cov = model_signed_average(m->seen_cov, product, falling, factor);
}

/* The model begins, or begins anew, with this I/O. */
static __always_inline void model_begin(struct model *m, __u64 size, __u64 ns)
{
	m->weight = MODEL_ONE;
	m->mean_sectors = size;
	m->mean_ns = ns << MODEL_FINE;
	m->var = 0;
	m->cov = 0;
	m->informed = 0;
	m->seen_sectors = size;
	m->seen_ns = ns << MODEL_FINE;
	m->seen_var_sectors = 0;
	m->seen_var_ns = 0;
	m->seen_cov = 0;
	m->age = 1;
	m->run = 0;
	m->strange = 0;
	m->spread = MODEL_FIRST_SPREAD;
	m->early = MODEL_FIRST_SPREAD * MODEL_NORMAL_EARLY / 16;
	m->late = MODEL_FIRST_SPREAD * MODEL_NORMAL_LATE / 16;
}

/* An I/O of so many sectors of 512 bytes took ns from issue to completion. */
static __always_inline void model_observe(struct model *m, __u32 sectors, __u64 ns)
{
	struct model_line line = {};
	__u64 size = (__u64)sectors << MODEL_FINE;
	__u64 learnt = ns, seen = ns;

	if (!sectors || sectors > MODEL_MOST_SECTORS || !ns || ns > MODEL_MOST_NS) {
		m->refused++;
		return;
	}
	m->count++;
	if (!m->age) {
		model_begin(m, size, ns);
		return;
	}
	model_line(m, sectors, &line);
	if (line.known) {
		bool longer = ns > line.ns;
		__u64 clip = (__u64)m->spread * MODEL_CLIP;
		__u64 far = (__u64)m->spread * MODEL_FAR;
		__u64 seen_clip = (__u64)m->spread * MODEL_SEEN_CLIP; /* 27 bits */
		__u64 err =
		    (model_distance(ns, line.ns) << MODEL_SHARE_SHIFT) / (longer ? line.ns : ns);

		if (err > MODEL_MOST_ERROR)
			err = MODEL_MOST_ERROR;
		learnt = model_learnt(line.ns, err < clip ? err : clip, longer);
		if (err > seen_clip)
			seen = longer ? model_longer(line.ns, seen_clip)
				      : model_shorter(line.ns, seen_clip);
		model_errs(m, err, longer);
		m->run = model_run(m->run, err, longer, clip, far);
		if (m->strange)
			m->strange--;
	} else {
		/* The line does not reach here, and so the weight by it is unknown. */
		line.root = model_root(m->mean_ns >> MODEL_FINE, ns);
		m->strange++;
	}
	/* A new size is known after one or two; a line that does not learn it is of no use. */
	if (m->run >= MODEL_CHANGE || m->run <= -MODEL_CHANGE || m->strange >= MODEL_CHANGE) {
		m->changes++;
		model_begin(m, size, ns);
		return;
	}
	if (m->age < 1 << 16)
		m->age++;
	model_learn_line(m, size, learnt, line.root);
	model_learn_correlation(m, size, seen);
}

/*
 * How long an I/O of so many sectors will take. false: nobody knows, since fewer than MODEL_FEWEST
 * were seen since the model began or began anew, or since the size is too far from all that were.
 */
static __always_inline bool model_predict(const struct model *m, __u32 sectors,
					  struct prediction *p)
{
	struct model_line line = {};

	if (m->age < MODEL_FEWEST || !sectors || sectors > MODEL_MOST_SECTORS)
		return false;
	model_line(m, sectors, &line);
	if (!line.known)
		return false;
	p->ns = line.ns;
	p->early_ns = model_shorter(line.ns, m->early);
	p->late_ns = model_longer(line.ns, m->late);
	return true;
}

#endif
