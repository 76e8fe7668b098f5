// Runs a CUDA kernel's thread blocks on the CPU, one after another. The threads of a block are contexts that take turns:
// one runs until it waits for the others. KERNEL is the file with the kernels `train` and `judge`.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

using std::min;
struct float4 { float x, y, z, w; };
struct float2 { float x, y; };
struct Index { int x, y; };
static Index threadIdx, blockIdx, gridDim;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(threads, blocks)
#define __shared__
#define __align__(bytes) alignas(bytes)

static ucontext_t scheduler;
static std::vector<ucontext_t> contexts;
static std::vector<char> finished;
static std::vector<float> passed;
static std::function<void()> body;
static int present, waiting, alive, generation;

static void give_way() {
  int me = present;
  swapcontext(&contexts[me], &scheduler);
  present = threadIdx.x = me;
}
static void __syncthreads() {
  int mine = generation;
  if (++waiting == alive) { waiting = 0; ++generation; }
  while (mine == generation) give_way();
}
static float __shfl_xor_sync(unsigned, float value, int far) {
  int me = present;
  passed[me] = value;
  give_way();
  float other = passed[me ^ far];
  give_way();
  return other;
}
alignas(16) static float shared[SHARED];

#include KERNEL

static void one_thread() {
  int me = present;
  threadIdx.x = me;
  body();
  finished[me] = 1;
  --alive;
  if (waiting && waiting == alive) { waiting = 0; ++generation; }
  swapcontext(&contexts[me], &scheduler);
}

static void run(int across, int down, std::function<void()> kernel) {
  body = kernel;
  gridDim = {across, down};
  std::vector<std::vector<char>> stacks(THREADS, std::vector<char>(1 << 16));
  contexts.resize(THREADS);
  passed.resize(THREADS);
  for (int block = 0; block < across * down; ++block) {
    blockIdx = {block % across, block / across};
    std::fill(shared, shared + SHARED, NAN);  // what is read before it is written shows
    finished.assign(THREADS, 0);
    alive = THREADS;
    waiting = 0;
    for (int t = 0; t < THREADS; ++t) {
      getcontext(&contexts[t]);
      contexts[t].uc_stack.ss_sp = stacks[t].data();
      contexts[t].uc_stack.ss_size = stacks[t].size();
      contexts[t].uc_link = &scheduler;
      makecontext(&contexts[t], one_thread, 0);
    }
    while (alive)
      for (int t = 0; t < THREADS; ++t)
        if (!finished[t]) { present = threadIdx.x = t; swapcontext(&scheduler, &contexts[t]); }
  }
}

extern "C" void run_train(int blocks, float* scratch, float* w, const float* start, const float* images,
                          const long long* labels, const int* samples, const int* steps, int lanes, float eta, float keep,
                          float pull) {
  run(blocks, 1, [=] { train(scratch, w, start, images, labels, samples, steps, lanes, eta, keep, pull); });
}
extern "C" void run_judge(int models, int parts, float* scratch, float* w, const float* images, int count, int each,
                          float* logits) {
  run(models, parts, [=] { judge(scratch, w, images, count, each, logits); });
}
