// Local training of small chains: one thread block trains one model, all its steps, without leaving the chip.
//
// Activations and convolution weights stay in shared memory; weights of linear layers are read and written in place
// in global memory, where they stay in the second-level cache. Blocks start in the order of the lanes: longest first.
// A "window" is the P x P square that max-pooling reduces to one number; `winner` says which of its places was the
// largest, or P * P if ReLU cut the number off (then its gradient is zero). The gradient of a convolution's output is
// nonzero at the winners only, so that it is never stored in full.
//
// The generated part (fused_chain.py) defines THREADS, the structs of the layers, and the bodies of the two kernels.

// One convolution with pooling: sizes, and how many channels a thread computes at once.
template <int B_, int CI_, int H_, int W_, int CO_, int K_, int P_, bool RELU_, int GO_, int GI_, int GW_, int XS_, int YS_>
struct Conv {
  static constexpr int B = B_, CI = CI_, H = H_, W = W_, CO = CO_, K = K_, P = P_;
  static constexpr bool RELU = RELU_;
  static constexpr int GO = GO_, GI = GI_, GW = GW_;  // forward, gradient of the input, gradient of the weights
  static constexpr int XS = XS_, YS = YS_;  // numbers from one sample to the next, before and after
  static constexpr int KK = K * K, PH = (H - K + 1) / P, PW = (W - K + 1) / P, WINDOWS = PH * PW;
  static constexpr int WEIGHTS = CO * CI * KK;
};

// Weights in groups of G channels: as many of a group as fill whole vectors of four, then the others.
template <int G>
struct Grouped {
  static constexpr int V = G / 4, R = G % 4;
  static __device__ __forceinline__ int place(int groups, int row, int channel, int total) {
    int group = channel / G, c = channel % G, at = row * groups + group;
    return c < 4 * V ? at * 4 * V + c : total / G * 4 * V + at * R + c - 4 * V;
  }
  static __device__ __forceinline__ void load(const float* w, int groups, int row, int group, int total, float* out) {
    int at = row * groups + group;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float4 four = *reinterpret_cast<const float4*>(w + (at * V + v) * 4);
      out[4 * v] = four.x; out[4 * v + 1] = four.y; out[4 * v + 2] = four.z; out[4 * v + 3] = four.w;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) out[4 * V + r] = w[total / G * 4 * V + at * R + r];
  }
};

// N numbers from shared memory, in the widest loads that their alignment allows.
template <int N, int ALIGNED>
__device__ __forceinline__ void load_row(const float* from, float* out) {
  constexpr int WIDE = ALIGNED % 4 == 0 && N % 4 == 0 ? 4 : (ALIGNED % 2 == 0 && N % 2 == 0 ? 2 : 1);
#pragma unroll
  for (int i = 0; i < N; i += WIDE) {
    if (WIDE == 4) {
      float4 v = *reinterpret_cast<const float4*>(from + i);
      out[i] = v.x; out[i + 1] = v.y; out[i + 2] = v.z; out[i + 3] = v.w;
    } else if (WIDE == 2) {
      float2 v = *reinterpret_cast<const float2*>(from + i);
      out[i] = v.x; out[i + 1] = v.y;
    } else {
      out[i] = from[i];
    }
  }
}

template <class C>
__device__ __forceinline__ void load_weights(const float* w, float* forward, float* backward) {
  for (int i = threadIdx.x; i < C::WEIGHTS; i += THREADS) {
    int co = i / (C::CI * C::KK), ci = i / C::KK % C::CI, tap = i % C::KK;
    forward[Grouped<C::GO>::place(C::CO / C::GO, ci * C::KK + tap, co, C::WEIGHTS)] = w[i];
    if (backward) backward[Grouped<C::GI>::place(C::CI / C::GI, co * C::KK + tap, ci, C::WEIGHTS)] = w[i];
  }
}

template <class C>
__device__ __forceinline__ void store_weights(float* w, const float* forward) {
  for (int i = threadIdx.x; i < C::WEIGHTS; i += THREADS) {
    int co = i / (C::CI * C::KK), ci = i / C::KK % C::CI, tap = i % C::KK;
    w[i] = forward[Grouped<C::GO>::place(C::CO / C::GO, ci * C::KK + tap, co, C::WEIGHTS)];
  }
}

// Convolution, bias, max-pooling and ReLU. A thread computes GO channels of one window.
template <class C>
__device__ __forceinline__ void conv_forward(const float* x, const float* w, const float* bias, float* y,
                                             unsigned char* winner) {
  constexpr int S = C::K + C::P - 1, GROUPS = C::CO / C::GO;
  for (int task = threadIdx.x; task < GROUPS * C::B * C::WINDOWS; task += THREADS) {
    int window = task % C::WINDOWS, b = task / C::WINDOWS % C::B, group = task / (C::WINDOWS * C::B);
    int py = window / C::PW, px = window % C::PW;
    float sum[C::P * C::P][C::GO] = {};
    const float* from = x + b * C::XS + py * C::P * C::W + px * C::P;
#pragma unroll 1
    for (int ci = 0; ci < C::CI; ++ci, from += C::H * C::W) {
      float patch[S][S];
#pragma unroll
      for (int r = 0; r < S; ++r) load_row<S, (C::P % 2 == 0 && C::W % 2 == 0) ? 2 : 1>(from + r * C::W, patch[r]);
#pragma unroll
      for (int ky = 0; ky < C::K; ++ky)
#pragma unroll
        for (int kx = 0; kx < C::K; ++kx) {
          float v[C::GO];
          Grouped<C::GO>::load(w, GROUPS, ci * C::KK + ky * C::K + kx, group, C::WEIGHTS, v);
#pragma unroll
          for (int i = 0; i < C::P; ++i)
#pragma unroll
            for (int j = 0; j < C::P; ++j)
#pragma unroll
              for (int g = 0; g < C::GO; ++g) sum[i * C::P + j][g] += patch[i + ky][j + kx] * v[g];
        }
    }
#pragma unroll
    for (int g = 0; g < C::GO; ++g) {
      float best = sum[0][g];
      int place = 0;
#pragma unroll
      for (int k = 1; k < C::P * C::P; ++k)
        if (sum[k][g] > best || sum[k][g] != sum[k][g]) { best = sum[k][g]; place = k; }
      int co = group * C::GO + g;
      best += bias[co];
      if (C::RELU && best <= 0.0f) { best = 0.0f; place = C::P * C::P; }
      int at = b * C::YS + co * C::WINDOWS + window;
      y[at] = best;
      if (winner) winner[at] = place;
    }
  }
}

// The gradient of a convolution's input. A thread computes GI channels of one P x P square, and leaves out what the
// ReLU before this layer cut off (`winner_before` equal to `cut`).
template <class C>
__device__ __forceinline__ void conv_input_gradient(const float* grad, const unsigned char* winner, const float* w,
                                                    float* out, const unsigned char* winner_before, int cut) {
  constexpr int GROUPS = C::CI / C::GI, BEFORE = (C::K - 1 + C::P - 1) / C::P;
  constexpr int SKIP = BEFORE * C::P - (C::K - 1), BY = (C::H + C::P - 1) / C::P, BX = (C::W + C::P - 1) / C::P;
  for (int task = threadIdx.x; task < GROUPS * C::B * BY * BX; task += THREADS) {
    // Threads of a warp work on the same squares, so that they leave out the same windows.
    int group = task % GROUPS, b = task / GROUPS % C::B, square = task / (GROUPS * C::B);
    int sy = square / BX, sx = square % BX;
    float sum[C::P * C::P][C::GI] = {};
#pragma unroll 1
    for (int co = 0; co < C::CO; ++co) {
      int plane = b * C::YS + co * C::WINDOWS;
#pragma unroll
      for (int dy = 0; dy <= BEFORE; ++dy) {
        int py = sy - BEFORE + dy;
        if (py < 0 || py >= C::PH) continue;
#pragma unroll
        for (int dx = 0; dx <= BEFORE; ++dx) {
          int px = sx - BEFORE + dx;
          if (px < 0 || px >= C::PW) continue;
          float g = grad[plane + py * C::PW + px];
          int place = winner[plane + py * C::PW + px];
          float spread[C::P][C::P];
#pragma unroll
          for (int i = 0; i < C::P; ++i)
#pragma unroll
            for (int j = 0; j < C::P; ++j) spread[i][j] = place == i * C::P + j ? g : 0.0f;
#pragma unroll
          for (int ky = 0; ky < C::K; ++ky)
#pragma unroll
            for (int kx = 0; kx < C::K; ++kx) {
              // Output row i gets tap ky from row `down` of the window, and likewise for columns.
              int far_y = C::K - 1 - ky - dy * C::P + SKIP, far_x = C::K - 1 - kx - dx * C::P + SKIP;
              if (far_y <= -C::P || far_y >= C::P || far_x <= -C::P || far_x >= C::P) continue;
              float v[C::GI];
              Grouped<C::GI>::load(w, GROUPS, co * C::KK + ky * C::K + kx, group, C::WEIGHTS, v);
#pragma unroll
              for (int i = 0; i < C::P; ++i)
#pragma unroll
                for (int j = 0; j < C::P; ++j) {
                  int down = i + far_y, right = j + far_x;
                  if (down >= 0 && down < C::P && right >= 0 && right < C::P)
#pragma unroll
                    for (int k = 0; k < C::GI; ++k) sum[i * C::P + j][k] += spread[down][right] * v[k];
                }
            }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < C::P; ++i)
#pragma unroll
      for (int j = 0; j < C::P; ++j) {
        int row = sy * C::P + i, column = sx * C::P + j;
        if (row < C::H && column < C::W)
#pragma unroll
          for (int g = 0; g < C::GI; ++g) {
            int at = b * C::XS + ((group * C::GI + g) * C::H + row) * C::W + column;
            out[at] = winner_before[at] == cut ? 0.0f : sum[i * C::P + j][g];
          }
      }
  }
}

// The gradients of a convolution's weights and bias. A thread computes one row of taps of GW kernels, over a share of
// the rows of windows; the shares are added in a fixed order.
template <class C>
__device__ __forceinline__ void conv_weight_gradient(const float* x, const float* grad, const unsigned char* winner,
                                                     float* of_weights, float* of_bias) {
  constexpr int GROUPS = C::CO / C::GW, TASKS = GROUPS * C::CI * C::K, ROWS = C::B * C::PH;
  constexpr int MOST = THREADS / TASKS > 0 ? THREADS / TASKS : 1, SHARES = MOST < ROWS ? MOST : ROWS;
  constexpr int USED = C::PW * C::P + C::K - 1, WIDE = C::W % 4 == 0 && (USED + 3) / 4 * 4 <= C::W ? (USED + 3) / 4 * 4 : USED;
  for (int first = 0; first < TASKS; first += THREADS) {
    int task = first + threadIdx.x % (TASKS < THREADS ? TASKS : THREADS);
    int share = TASKS < THREADS ? threadIdx.x / TASKS : 0;
    bool works = task < TASKS && share < SHARES;
    int ky = task % C::K, ci = task / C::K % C::CI, group = task / (C::K * C::CI);
    float sum[C::GW][C::K] = {}, bias[C::GW] = {};
    if (works)
#pragma unroll 1
      for (int row = share; row < ROWS; row += SHARES) {
        int b = row / C::PH, py = row % C::PH;
        float line[C::P][WIDE];
#pragma unroll
        for (int i = 0; i < C::P; ++i)
          load_row<WIDE, C::W % 4 == 0 ? 4 : 1>(x + b * C::XS + ci * C::H * C::W + (py * C::P + i + ky) * C::W, line[i]);
#pragma unroll
        for (int g = 0; g < C::GW; ++g) {
          int at = b * C::YS + (group * C::GW + g) * C::WINDOWS + py * C::PW;
          float some[C::PW];
          load_row<C::PW, C::PW % 4 == 0 ? 4 : 1>(grad + at, some);
#pragma unroll
          for (int px = 0; px < C::PW; ++px) {
            int place = winner[at + px];
            bias[g] += some[px];
#pragma unroll
            for (int i = 0; i < C::P; ++i)
#pragma unroll
              for (int j = 0; j < C::P; ++j) {
                float v = place == i * C::P + j ? some[px] : 0.0f;
#pragma unroll
                for (int kx = 0; kx < C::K; ++kx) sum[g][kx] += v * line[i][px * C::P + j + kx];
              }
          }
        }
      }
    for (int turn = 0; turn < SHARES; ++turn) {
      if (works && share == turn)
#pragma unroll
        for (int g = 0; g < C::GW; ++g) {
          int co = group * C::GW + g;
#pragma unroll
          for (int kx = 0; kx < C::K; ++kx) {
            int at = (co * C::CI + ci) * C::KK + ky * C::K + kx;
            of_weights[at] = turn ? of_weights[at] + sum[g][kx] : sum[g][kx];
          }
          if (ci == 0 && ky == 0) of_bias[co] = turn ? of_bias[co] + bias[g] : bias[g];
        }
      if (SHARES > 1) __syncthreads();
    }
  }
}

// The rule of one SGD step, with the proximal term (`pull`, towards `start`) and weight decay: see Rule in wide_ops.py.
struct Rule { float eta, decay, pull; };

__device__ __forceinline__ float stepped(float w, float gradient, const float* start, int at, Rule rule) {
  float down = rule.eta * gradient + rule.decay * w;
  if (rule.pull != 0.0f) down += rule.pull * (w - start[at]);
  return w - down;
}

template <class C>
__device__ __forceinline__ void conv_update(const float* of_weights, const float* of_bias, const float* start_w,
                                            const float* start_b, float* forward, float* backward, float* bias, Rule rule) {
  for (int i = threadIdx.x; i < C::WEIGHTS; i += THREADS) {
    int co = i / (C::CI * C::KK), ci = i / C::KK % C::CI, tap = i % C::KK;
    float* place = forward + Grouped<C::GO>::place(C::CO / C::GO, ci * C::KK + tap, co, C::WEIGHTS);
    float w = stepped(*place, of_weights[i], start_w, i, rule);
    *place = w;
    if (backward) backward[Grouped<C::GI>::place(C::CI / C::GI, co * C::KK + tap, ci, C::WEIGHTS)] = w;
  }
  if (bias)
    for (int i = threadIdx.x; i < C::CO; i += THREADS) bias[i] = stepped(bias[i], of_bias[i], start_b, i, rule);
}

// A linear layer: a warp computes one feature of all samples.
template <int B, int IN, int XS, int OUT, bool RELU>
__device__ __forceinline__ void linear_forward(const float* x, const float* w, const float* bias, float* y) {
  int lane = threadIdx.x % 32;
  for (int o = threadIdx.x / 32; o < OUT; o += THREADS / 32) {
    float sum[B] = {};
#pragma unroll 10
    for (int k = lane; k < IN; k += 32) {
      float v = w[o * IN + k];
#pragma unroll
      for (int b = 0; b < B; ++b) sum[b] += v * x[b * XS + k];
    }
#pragma unroll
    for (int b = 0; b < B; ++b) {
#pragma unroll
      for (int far = 16; far > 0; far /= 2) sum[b] += __shfl_xor_sync(0xffffffffu, sum[b], far);
      if (lane == 0) {
        float v = sum[b] + (bias ? bias[o] : 0.0f);
        y[b * OUT + o] = RELU && v <= 0.0f ? 0.0f : v;
      }
    }
  }
}

// Gradients of a linear layer and its update in place. `grad` is [feature][BP] with BP a multiple of four.
// The gradient of the input goes to `out`: [feature][BP] before a linear layer, [sample][feature] before convolutions.
template <int B, int BP, int IN, int XS, int OUT, bool LINEAR_BEFORE, bool RELU_BEFORE, bool FIRST>
__device__ __forceinline__ void linear_backward(const float* x, const float* grad, float* w, float* bias,
                                                const float* start_w, const float* start_b, float* out,
                                                const unsigned char* winner_before, int cut, Rule rule) {
  constexpr int AT_ONCE = OUT % 10 == 0 ? 10 : (OUT % 8 == 0 ? 8 : 1);
  for (int k = threadIdx.x; k < IN; k += THREADS) {
    float in[B], sum[B] = {};
#pragma unroll
    for (int b = 0; b < B; ++b) in[b] = x[b * XS + k];
#pragma unroll 1
    for (int first = 0; first < OUT; first += AT_ONCE) {
      float old[AT_ONCE];
#pragma unroll
      for (int u = 0; u < AT_ONCE; ++u) old[u] = w[(first + u) * IN + k];
#pragma unroll
      for (int u = 0; u < AT_ONCE; ++u) {
        float g[BP], gradient = 0.0f;
        load_row<BP, 4>(grad + (first + u) * BP, g);
#pragma unroll
        for (int b = 0; b < B; ++b) {
          gradient += g[b] * in[b];
          if (!FIRST) sum[b] += g[b] * old[u];
        }
        int at = (first + u) * IN + k;
        w[at] = stepped(old[u], gradient, start_w, at, rule);
      }
    }
    if (!FIRST)
#pragma unroll
      for (int b = 0; b < B; ++b) {
        if (LINEAR_BEFORE) {
          out[k * BP + b] = RELU_BEFORE && in[b] <= 0.0f ? 0.0f : sum[b];
        } else {
          out[b * XS + k] = winner_before[b * XS + k] == cut ? 0.0f : sum[b];
        }
      }
  }
  if (bias)
    for (int o = threadIdx.x; o < OUT; o += THREADS) {
      float gradient = 0.0f;
      for (int b = 0; b < B; ++b) gradient += grad[o * BP + b];
      bias[o] = stepped(bias[o], gradient, start_b, o, rule);
    }
}

// The gradient of the mean cross-entropy by the logits, [class][BP]. Samples below zero are absent.
template <int B, int BP, int CLASSES>
__device__ __forceinline__ void loss_gradient(const float* logits, const int* chosen, const long long* labels, float* out) {
  for (int b = threadIdx.x; b < BP; b += THREADS) {
    int present = 0;
    for (int i = 0; i < B; ++i) present += chosen[i] >= 0;
    if (b >= B || chosen[b] < 0) {
      for (int c = 0; c < CLASSES; ++c) out[c * BP + b] = 0.0f;
      continue;
    }
    const float* mine = logits + b * CLASSES;
    float most = mine[0], total = 0.0f;
    for (int c = 1; c < CLASSES; ++c) most = fmaxf(most, mine[c]);
    for (int c = 0; c < CLASSES; ++c) total += expf(mine[c] - most);
    int label = (int)labels[chosen[b]];
    for (int c = 0; c < CLASSES; ++c)
      out[c * BP + b] = (expf(mine[c] - most) / total - (c == label ? 1.0f : 0.0f)) / present;
  }
}

// The images of a batch, [sample][pixel]; an absent one is the first image of all.
template <int B, int PIXELS, int XS>
__device__ __forceinline__ void load_images(const float* images, const int* chosen, float* x) {
  constexpr int WIDE = PIXELS % 4 == 0 ? 4 : 1;
  for (int i = threadIdx.x; i < B * PIXELS / WIDE; i += THREADS) {
    int b = i * WIDE / PIXELS, at = i * WIDE % PIXELS, image = chosen[b] < 0 ? 0 : chosen[b];
    const float* from = images + (long long)image * PIXELS + at;
    if (WIDE == 4) *reinterpret_cast<float4*>(x + b * XS + at) = *reinterpret_cast<const float4*>(from);
    else x[b * XS + at] = *from;
  }
}
