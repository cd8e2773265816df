/* What a decoding step spends its time on, on a CPU: attention over the KV cache, and linear layers of few rows.

   Nothing here depends on what shares a step. A score is summed in the order of the head's dimensions, and the values of a token
   from position 0 on: what a token gets depends only on its own query and on the keys and values up to it, not on the tokens that
   it is computed with. An output of a linear layer is summed in the order of its inputs, which is that of a library's product of
   many rows: what asks for it tries that first. All of these are products of few rows and 16 columns (`multiply`). Compiled for
   float32, and with -DBFLOAT16 for bfloat16, which is widened where it is read and rounded where it is written. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float lanes __attribute__((vector_size(32), aligned(4)));
typedef int32_t int_lanes __attribute__((vector_size(32), aligned(4)));

#define LANES 8
#define QUERIES 48 /* Rows of queries that share a walk over the keys. */
#define KEYS 32    /* Keys and values that stay in the fastest cache for them. */

#ifdef BFLOAT16
typedef uint16_t real;
typedef uint16_t real_lanes __attribute__((vector_size(16), aligned(2)));
static inline lanes load(const real *from) {
    return (lanes)(__builtin_convertvector(*(const real_lanes *)from, int_lanes) << 16);
}
static inline float widen(real value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}
static inline real narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return (real)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static inline void store(real *to, lanes values) {
    for (int at = 0; at < LANES; at++) to[at] = narrow(values[at]);
}
#else
typedef float real;
static inline lanes load(const real *from) { return *(const lanes *)from; }
static inline float widen(real value) { return value; }
static inline real narrow(float value) { return value; }
static inline void store(real *to, lanes values) { *(lanes *)to = values; }
#endif

typedef struct {
    const real *q, *k, *v;
    real *out, *keys, *values;
    const int64_t *slots, *positions;
    int64_t tokens, heads, kv_heads, dim, q_stride, k_stride, v_stride, length;
    float scale;
} step;

typedef struct {
    int64_t first, count, kv_head;
} item;

typedef struct {
    const step *step;
    const item *items;
    int64_t number, scores;
    volatile int failed;
} work;

/* Threads share the items of a job by taking the next one; starting one takes as long as half a million products. */
typedef struct {
    void (*run)(void *job, int64_t from, int64_t *next);
    void *job;
    int64_t *next;
} share_of_job;

static void *run_share(void *given) {
    share_of_job *s = given;
    s->run(s->job, __sync_fetch_and_add(s->next, 1), s->next);
    return 0;
}

static void run_job(void (*run)(void *, int64_t, int64_t *), void *job, int64_t items, double products, int64_t threads) {
    int64_t next = 0;
    share_of_job share = {run, job, &next};
    pthread_t others[64];
    int started = 0;
    while (started < threads - 1 && started < 64 && started < items - 1 && products > 2e6) {
        if (pthread_create(others + started, 0, run_share, &share)) break;
        started++;
    }
    run_share(&share);
    for (int at = 0; at < started; at++) pthread_join(others[at], 0);
}

/* Always fused, or never on a processor that cannot: a compiler that fuses some of them would give a row other bits in company. */
#if defined(__FMA__)
#include <immintrin.h>
static inline lanes multiply_add(lanes a, lanes b, lanes sum) { return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum); }
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
static inline lanes multiply_add(lanes a, lanes b, lanes sum) {
    union { lanes all; float32x4_t half[2]; } x = {a}, y = {b}, z = {sum};
    for (int at = 0; at < 2; at++) z.half[at] = vfmaq_f32(z.half[at], x.half[at], y.half[at]);
    return z.all;
}
#else
static inline lanes multiply_add(lanes a, lanes b, lanes sum) { return a * b + sum; }
#endif

static inline lanes spread(float value) { return (lanes){value, value, value, value, value, value, value, value}; }

static inline lanes choose(int_lanes wanted, lanes yes, lanes no) {
    return (lanes)((wanted & (int_lanes)yes) | (~wanted & (int_lanes)no));
}

static inline lanes exponentiate(lanes x) {
    /* 2^n * e^r with |r| <= ln(2) / 2, by the polynomial of Cephes' expf; 0 from -87 down. */
    lanes lowest = spread(-87.0f);
    int_lanes vanishes = x < lowest;
    x = choose(vanishes, lowest, x);
    lanes shifted = x * spread(1.44269504f) + spread(12582912.0f);
    lanes n = shifted - spread(12582912.0f);
    lanes r = x - n * spread(0.693359375f);
    r = r - n * spread(-2.12194440e-4f);
    lanes y = spread(1.9875691500e-4f);
    y = multiply_add(y, r, spread(1.3981999507e-3f));
    y = multiply_add(y, r, spread(8.3334519073e-3f));
    y = multiply_add(y, r, spread(4.1665795894e-2f));
    y = multiply_add(y, r, spread(1.6666665459e-1f));
    y = multiply_add(y, r, spread(5.0000001201e-1f));
    y = y * r * r + r + spread(1.0f);
    int_lanes power = (__builtin_convertvector(n, int_lanes) + 127) << 23;
    y = y * (lanes)power;
    return choose(vanishes, spread(0.0f), y);
}

static inline float add_lanes(lanes x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

static inline float max_lanes(lanes x) {
    float most = x[0];
    for (int at = 1; at < LANES; at++) most = x[at] > most ? x[at] : most;
    return most;
}

#define COLUMNS 16 /* Taken by a thread at a time. */
#define INPUTS 96  /* Most inputs whose weights are laid out at a time. */
#define TOGETHER 48 /* Most rows that are computed by weights once laid out. */
#define AHEAD 48   /* How many weights before their use they are fetched. */

static inline void transpose(lanes *w) {
    lanes a[8], b[8];
    for (int at = 0; at < 8; at += 2) {
        a[at] = __builtin_shufflevector(w[at], w[at + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[at + 1] = __builtin_shufflevector(w[at], w[at + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int at = 0; at < 8; at += 4)
        for (int one = 0; one < 2; one++) {
            b[at + 2 * one] = __builtin_shufflevector(a[at + one], a[at + 2 + one], 0, 1, 8, 9, 4, 5, 12, 13);
            b[at + 2 * one + 1] = __builtin_shufflevector(a[at + one], a[at + 2 + one], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int at = 0; at < 4; at++) {
        w[at] = __builtin_shufflevector(b[at], b[at + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        w[at + 4] = __builtin_shufflevector(b[at], b[at + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Lay out `count` inputs of up to COLUMNS columns, which are rows of `from`, `apart` from each other, as [count, COLUMNS]. */
static void lay_out(const real *from, int64_t apart, int64_t columns, int64_t count, float *laid) {
    for (int part = 0; part < 2; part++) {
        const real *column[LANES];
        for (int at = 0; at < LANES; at++) {
            int64_t here = part * LANES + at;
            column[at] = from + (here < columns ? here : columns - 1) * apart;
        }
        for (int64_t k = 0; k < count; k += LANES) {
            lanes w[LANES];
            for (int at = 0; at < LANES; at++) {
                __builtin_prefetch(column[at] + k + AHEAD);
                w[at] = load(column[at] + k);
            }
            transpose(w);
            for (int at = 0; at < LANES; at++) *(lanes *)(laid + COLUMNS * (k + at) + part * LANES) = w[at];
        }
    }
}

/* A product of rows and what is laid out, which adds to sums of COLUMNS columns. */
typedef struct {
    const float *x, *laid;
    float *sums;
    int64_t x_apart, laid_apart, sums_apart, count;
    const real *next; /* What is laid out next, in rows `next_apart` from each other: a line an input is fetched. */
    int64_t next_apart;
} product;

static inline __attribute__((always_inline)) void multiply(const product *p, int64_t first, int rows) {
    const float *x = p->x + first * p->x_apart, *laid = p->laid;
    float *sums = p->sums + first * p->sums_apart;
    const int64_t x_apart = p->x_apart, laid_apart = p->laid_apart, sums_apart = p->sums_apart, count = p->count;
    const int64_t next_apart = p->next_apart;
    const real *next = p->next;
    lanes here[6][2];
    for (int row = 0; row < rows; row++)
        for (int part = 0; part < 2; part++) here[row][part] = *(lanes *)(sums + row * sums_apart + part * LANES);
    for (int64_t k = 0; k < count; k++) {
        if (next) {
            __builtin_prefetch(next);
            next += next_apart;
            if (k % COLUMNS == COLUMNS - 1) next += 64 / (int64_t)sizeof(real) - COLUMNS * next_apart;
        }
        lanes w[2] = {*(const lanes *)(laid + k * laid_apart), *(const lanes *)(laid + k * laid_apart + LANES)};
        for (int row = 0; row < rows; row++) {
            lanes one = spread(x[row * x_apart + k]);
            for (int part = 0; part < 2; part++) here[row][part] = multiply_add(one, w[part], here[row][part]);
        }
    }
    for (int row = 0; row < rows; row++)
        for (int part = 0; part < 2; part++) *(lanes *)(sums + row * sums_apart + part * LANES) = here[row][part];
}

static void multiply_rows(const product *p, int64_t rows) {
    int64_t at = 0;
    for (; at + 6 <= rows; at += 6) multiply(p, at, 6);
    for (; at + 4 <= rows; at += 4) multiply(p, at, 4);
    for (; at + 2 <= rows; at += 2) multiply(p, at, 2);
    if (at < rows) multiply(p, at, 1);
}

static void soften(float *scores, int64_t count, int64_t padded) {
    for (int64_t at = count; at < padded; at++) scores[at] = -INFINITY;
    lanes most = *(lanes *)scores;
    for (int64_t at = 0; at < padded; at += LANES) {
        lanes x = *(lanes *)(scores + at);
        most = choose(x > most, x, most);
    }
    float top = max_lanes(most);
    lanes total = {0};
    for (int64_t at = 0; at < padded; at += LANES) {
        lanes x = *(lanes *)(scores + at);
        lanes y = exponentiate(x - spread(top));
        /* A score that is not finite makes the whole row so, as everywhere else: the sampler reports it. */
        y = choose(x != x, x, y);
        total += y;
        *(lanes *)(scores + at) = y;
    }
    lanes share = spread(1.0f / add_lanes(total));
    for (int64_t at = 0; at < padded; at += LANES) *(lanes *)(scores + at) *= share;
}

/* Return `count` rows of COLUMNS numbers, `apart` from each other, as floats: where they are, or laid out with zeros behind the
   first `columns`. */
static const float *widen_all(const real *from, int64_t apart, int64_t columns, int64_t count, float *laid) {
#ifndef BFLOAT16
    if (columns >= COLUMNS) return from;
#endif
    for (int64_t at = 0; at < count; at++)
        for (int part = 0; part < 2; part++)
            *(lanes *)(laid + at * COLUMNS + part * LANES) = part * LANES < columns ? load(from + at * apart + part * LANES) : spread(0);
    return laid;
}

static void attend_item(const step *s, const item *it, float *scratch, int64_t scores) {
    const int64_t dim = s->dim, wide = (dim + COLUMNS - 1) / COLUMNS * COLUMNS;
    const int64_t share = s->heads / s->kv_heads, rows = it->count * share;
    float *queries = scratch, *sums = queries + QUERIES * wide, *probs = sums + QUERIES * wide;
    float laid[COLUMNS * INPUTS] __attribute__((aligned(64)));
    const int64_t start = (s->slots[it->first] * s->kv_heads + it->kv_head) * s->length * dim;
    const real *keys = s->keys + start, *values = s->values + start;
    const int64_t position = s->positions[it->first], last = position + it->count;
    for (int64_t row = 0; row < rows; row++) {
        const real *q = s->q + (it->first + row / share) * s->q_stride + (it->kv_head * share + row % share) * dim;
        for (int64_t at = 0; at < dim; at += LANES) *(lanes *)(queries + row * dim + at) = load(q + at) * spread(s->scale);
    }
    memset(sums, 0, sizeof(float) * rows * wide);
    for (int64_t begin = 0; begin < last; begin += COLUMNS) {
        const int64_t first = begin > position ? (begin - position) * share : 0;
        for (int64_t row = first; row < rows; row++) memset(probs + row * scores + begin, 0, sizeof(float) * COLUMNS);
        for (int64_t at = 0; at < dim; at += INPUTS) {
            const int64_t count = dim - at < INPUTS ? dim - at : INPUTS;
            const real *from = keys + begin * dim + at * COLUMNS;
            product p = {queries + first * dim + at, widen_all(from, COLUMNS, COLUMNS, count, laid), probs + first * scores + begin,
                         dim, COLUMNS, scores, count, 0, 0};
            multiply_rows(&p, rows - first);
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        int64_t count = position + row / share + 1, padded = (count + LANES - 1) / LANES * LANES;
        soften(probs + row * scores, count, padded);
        for (int64_t at = padded; at < last; at++) probs[row * scores + at] = 0.0f;
    }
    for (int64_t begin = 0; begin < last; begin += KEYS) {
        const int64_t count = last - begin < KEYS ? last - begin : KEYS;
        for (int64_t column = 0; column < dim; column += COLUMNS) {
            const real *from = values + begin * dim + column;
            const float *w = widen_all(from, dim, dim - column, count, laid);
            product p = {probs + begin, w, sums + column, scores, w == laid ? COLUMNS : dim, wide, count, 0, 0};
            multiply_rows(&p, rows);
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        real *out = s->out + ((it->first + row / share) * s->heads + it->kv_head * share + row % share) * dim;
        for (int64_t at = 0; at < dim; at++) out[at] = narrow(sums[row * wide + at]);
    }
}

static void attend_items(void *given, int64_t from, int64_t *next) {
    work *w = given;
    float *scratch = malloc(sizeof(float) * QUERIES * (2 * (w->step->dim + COLUMNS) + w->scores));
    if (!scratch) {
        w->failed = 1;
        return;
    }
    for (int64_t at = from; at < w->number; at = __sync_fetch_and_add(next, 1))
        attend_item(w->step, w->items + at, scratch, w->scores);
    free(scratch);
}

/* Store the keys and values of all tokens, then attend. Tokens of slot -1 get zeros, and are stored nowhere.
   Consecutive tokens of a slot are at consecutive positions. Returns 0, or 1 without enough memory. */
int attend(const step *s, int64_t threads) {
    const int64_t share = s->heads / s->kv_heads, most = share > QUERIES ? 1 : QUERIES / share;
    item *items = malloc(sizeof(item) * (s->tokens * s->kv_heads + 1));
    if (!items || share > QUERIES) return free(items), 1;
    int64_t number = 0, longest = 0;
    double products = 0;
    for (int64_t token = 0; token < s->tokens; token++) {
        int64_t slot = s->slots[token], position = s->positions[token];
        if (slot < 0) {
            memset(s->out + token * s->heads * s->dim, 0, sizeof(real) * s->heads * s->dim);
            continue;
        }
        if (position + 1 > longest) longest = position + 1;
        products += (double)(position + 1) * s->heads * s->dim;
        for (int64_t head = 0; head < s->kv_heads; head++) {
            int64_t start = (slot * s->kv_heads + head) * s->length * s->dim, to = start + position * s->dim;
            real *key = s->keys + start + position / COLUMNS * COLUMNS * s->dim + position % COLUMNS;
            for (int64_t at = 0; at < s->dim; at++) key[at * COLUMNS] = s->k[token * s->k_stride + head * s->dim + at];
            memcpy(s->values + to, s->v + token * s->v_stride + head * s->dim, sizeof(real) * s->dim);
        }
    }
    for (int64_t first = 0; first < s->tokens;) {
        int64_t count = 1;
        if (s->slots[first] < 0) {
            first++;
            continue;
        }
        while (count < most && first + count < s->tokens && s->slots[first + count] == s->slots[first]) count++;
        for (int64_t head = 0; head < s->kv_heads; head++) items[number++] = (item){first, count, head};
        first += count;
    }
    work shared = {s, items, number, (longest + COLUMNS + KEYS) / LANES * LANES, 0};
    run_job(attend_items, &shared, number, products, threads);
    free(items);
    return shared.failed;
}

typedef struct {
    const float *x;
    const real *weight, *bias;
    real *out;
    int64_t rows, inner, columns, block;
} layer;

/* The outputs of `rows` rows in COLUMNS columns. */
static void multiply_block(const layer *l, int64_t column, int64_t row, int64_t rows, int64_t most) {
    float laid[COLUMNS * INPUTS] __attribute__((aligned(64)));
    lanes sums[2 * TOGETHER], totals[2 * TOGETHER], bias[2] = {{0}};
    const int64_t left = l->columns - column, columns = left < COLUMNS ? left : COLUMNS;
    for (int at = 0; l->bias && at < columns; at++) bias[at / LANES][at % LANES] = widen(l->bias[column + at]);
    for (int at = 0; at < 2 * rows; at++) totals[at] = bias[at % 2];
    for (int64_t begin = 0; begin < l->inner; begin += l->block) {
        const int64_t end = begin + l->block < l->inner ? begin + l->block : l->inner;
        memset(sums, 0, sizeof(lanes) * 2 * rows);
        for (int64_t at = begin, count; at < end; at += count) {
            count = end - at < most ? end - at : most;
            lay_out(l->weight + column * l->inner + at, l->inner, columns, count, laid);
            const int64_t next = at + count < l->inner ? column * l->inner + at + count : (column + columns) % l->columns * l->inner;
            product p = {l->x + row * l->inner + at, laid, (float *)sums, l->inner, COLUMNS, COLUMNS, count, l->weight + next, l->inner};
            multiply_rows(&p, rows);
        }
        for (int at = 0; at < 2 * rows; at++) totals[at] += sums[at];
    }
    for (int64_t at = 0; at < rows; at++)
        for (int lane = 0; lane < columns; lane++)
            l->out[(row + at) * l->columns + column + lane] = narrow(totals[2 * at + lane / LANES][lane % LANES]);
}

static void multiply_columns(void *given, int64_t from, int64_t *next) {
    const layer *l = given;
    const int64_t block = l->block < l->inner ? l->block : l->inner, parts = (block + INPUTS - 1) / INPUTS;
    const int64_t most = (block + LANES * parts - 1) / (LANES * parts) * LANES;
    for (int64_t at = from; at * COLUMNS < l->columns; at = __sync_fetch_and_add(next, 1))
        for (int64_t row = 0; row < l->rows; row += TOGETHER)
            multiply_block(l, at * COLUMNS, row, l->rows - row < TOGETHER ? l->rows - row : TOGETHER, most);
}

/* Write x [rows, inner] times weight [columns, inner], transposed, plus bias [columns] or nothing, to out [rows, columns].
   Sums begin again after each `block` of inputs; it and `inner` are multiples of 8. Returns 0, or 1 without enough memory. */
int apply_linear(
    const real *x, const real *weight, const real *bias, real *out, int64_t rows, int64_t inner, int64_t columns, int64_t block,
    int64_t threads) {
#ifdef BFLOAT16
    float *wide = malloc(sizeof(float) * rows * inner);
    if (!wide) return 1;
    for (int64_t at = 0; at < rows * inner; at += LANES) *(lanes *)(wide + at) = load(x + at);
#else
    const float *wide = x;
#endif
    layer l = {wide, weight, bias, out, rows, inner, columns, block};
    run_job(multiply_columns, &l, (columns + COLUMNS - 1) / COLUMNS, (double)rows * inner * columns, threads);
#ifdef BFLOAT16
    free(wide);
#endif
    return 0;
}

/* What is computed row by row, in blocks of rows. */
typedef struct rowwise {
    void (*compute)(const struct rowwise *job, int64_t row);
    const real *x, *other;
    real *out;
    int64_t rows, size, heads, all;
    float eps;
} rowwise;

#define ROWS 32

static void compute_rows(void *given, int64_t from, int64_t *next) {
    const rowwise *job = given;
    for (int64_t at = from; at * ROWS < job->rows; at = __sync_fetch_and_add(next, 1))
        for (int64_t row = at * ROWS; row < job->rows && row < (at + 1) * ROWS; row++) job->compute(job, row);
}

static void run_rows(rowwise job, int64_t products, int64_t threads) {
    run_job(compute_rows, &job, (job.rows + ROWS - 1) / ROWS, (double)products, threads);
}

static void normalize_row(const rowwise *job, int64_t row) {
    const real *x = job->x + row * job->size, *gain = job->other ? job->other + row % job->heads * job->size : 0;
    real *out = job->out + row * job->size;
    lanes squares = {0};
    for (int64_t at = 0; at < job->size; at += LANES) {
        lanes here = load(x + at);
        squares = multiply_add(here, here, squares);
    }
    lanes rate = spread(1.0f / sqrtf(add_lanes(squares) / (float)job->size + job->eps));
    for (int64_t at = 0; at < job->size; at += LANES) {
        lanes here = load(x + at) * rate;
        store(out + at, gain ? here * load(gain + at) : here);
    }
}

/* Write x [rows, size], each row divided by the root of its mean square plus eps, times gain [gains, size], of which row i takes
   i modulo `gains`, or nothing. */
void normalize(
    const real *x, const real *gain, real *out, int64_t rows, int64_t size, int64_t gains, float eps, int64_t threads) {
    run_rows((rowwise){normalize_row, x, gain, out, rows, size, gains, 0, eps}, rows * size, threads);
}

static void gate_row(const rowwise *job, int64_t row) {
    const real *x = job->x + row * 2 * job->size;
    real *out = job->out + row * job->size;
    for (int64_t at = 0; at < job->size; at += LANES) {
        lanes here = load(x + at), most = choose(here < spread(-87.0f), spread(87.0f), -here);
        store(out + at, here / (spread(1.0f) + exponentiate(most)) * load(x + job->size + at));
    }
}

/* Write silu(gate) * up of x [rows, 2 * size], which is gate then up. */
void apply_gate(const real *x, real *out, int64_t rows, int64_t size, int64_t threads) {
    run_rows((rowwise){gate_row, x, 0, out, rows, size, 1, 0, 0}, 8 * rows * size, threads);
}

static void rotate_row(const rowwise *job, int64_t row) {
    const int64_t dim = job->size, half = dim / 2;
    const real *turns = job->other + row * 2 * dim;
    for (int64_t head = 0; head < job->heads; head++) {
        real *one = job->out + row * job->all + head * dim, *two = one + half;
        for (int64_t at = 0; at < half; at += LANES / 2) {
        float a[LANES], b[LANES], c[LANES], d[LANES];
            for (int lane = 0; lane < LANES / 2; lane++) {
                float cos_one = widen(turns[at + lane]), cos_two = widen(turns[half + at + lane]);
                float sin_one = widen(turns[dim + at + lane]), sin_two = widen(turns[dim + half + at + lane]);
                a[lane] = widen(one[at + lane]), b[lane] = widen(two[at + lane]);
                c[lane] = a[lane] * cos_one + b[lane] * sin_one, d[lane] = b[lane] * cos_two + a[lane] * sin_two;
            }
            for (int lane = 0; lane < LANES / 2; lane++) one[at + lane] = narrow(c[lane]), two[at + lane] = narrow(d[lane]);
        }
    }
}

/* Turn the first `heads` heads of rows of x, `stride` apart, in place: x * cos + (x with its halves exchanged) * sin, with
   turns [rows, 2, dim]; dim is a multiple of 8. */
void rotate(real *x, const real *turns, int64_t rows, int64_t stride, int64_t heads, int64_t dim, int64_t threads) {
    run_rows((rowwise){rotate_row, 0, turns, x, rows, dim, heads, stride, 0}, rows * heads * dim, threads);
}
