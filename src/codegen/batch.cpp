#include "codegen/batch.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/at_fork.h"
#include "base/digest.h"
#include "base/events.h"
#include "base/totals.h"

namespace vesta::codegen {

namespace {

using machine::Object;

// The objects of the process by symbol. A thread that claims a symbol must
// publish its object or abandon the claim.
class Cache {
 public:
  enum class Claim { Found, Mine, Others };

  Cache() = default;
  // The cache of a forked child. Threads that it does not have build nothing. The caller holds the lock of `parent`.
  explicit Cache(const Cache& parent) {
    for (const auto& [symbol, slot] : parent.slots_)
      if (!slot.building) slots_.emplace(symbol, slot);
  }
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  Claim claim(const std::string& symbol, std::shared_ptr<const Object>& object) {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[symbol];
    if ((object = slot.object.lock())) return Claim::Found;
    if (slot.building) return Claim::Others;
    slot.building = true;
    return Claim::Mine;
  }
  void publish(const std::string& symbol, const std::shared_ptr<const Object>& object) {
    const std::lock_guard lock(mutex_);
    slots_[symbol] = {object, false};
    if (slots_.size() > sweep_at_) sweep();
    built_.notify_all();
  }
  void abandon(const std::string& symbol) {
    const std::lock_guard lock(mutex_);
    slots_.erase(symbol);
    built_.notify_all();
  }
  // Returns once no thread builds the symbol's object.
  void wait(const std::string& symbol) {
    std::unique_lock lock(mutex_);
    built_.wait(lock, [&] {
      const auto it = slots_.find(symbol);
      return it == slots_.end() || !it->second.building;
    });
  }

 private:
  struct Slot {
    std::weak_ptr<const Object> object;
    bool building = false;
  };

  void sweep() {
    std::erase_if(slots_, [](const auto& s) { return !s.second.building && s.second.object.expired(); });
    sweep_at_ = std::max<size_t>(1024, 2 * slots_.size());
  }

  std::mutex mutex_;
  std::condition_variable built_;
  std::unordered_map<std::string, Slot> slots_;
  size_t sweep_at_ = 1024;
};

// Threads that live as long as the process, so that what a thread's generator has set up serves all compiles. The
// caller of run() works, too.
class Pool {
 public:
  // Calls work(i) for i in [0, count) on at most `width` threads and returns when all calls are done. If nobody waits
  // (`token`, which may be null), only the caller works.
  void run(int width, const CancelToken* token, size_t count, const std::function<void(size_t)>& work) {
    auto batch = std::make_shared<Batch>();
    batch->token = token;
    batch->count = count;
    batch->work = &work;
    const int helpers = batch->is_awaited() ? std::min<int>(width, static_cast<int>(count)) - 1 : 0;
    if (helpers > 0) {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_) < helpers) {
        std::thread([this] { serve(); }).detach();
        ++threads_;
      }
      for (int i = 0; i < helpers; ++i) queue_.push_back(batch);
      wake_.notify_all();
    }
    batch->drain(true);
    std::unique_lock lock(batch->mutex);
    batch->all_done.wait(lock, [&] { return batch->done == batch->count; });
  }

 private:
  struct Batch {
    std::atomic<size_t> next{0};
    size_t count = 0;
    const std::function<void(size_t)>* work = nullptr;
    const CancelToken* token = nullptr;
    std::mutex mutex;
    std::condition_variable all_done;
    size_t done = 0;

    bool is_awaited() const { return !token || token->is_awaited(); }
    void drain(bool caller) {
      for (size_t i = next++; i < count; i = next++) {
        (*work)(i);
        const bool stays = caller || is_awaited();  // the token may be gone when all calls are done
        std::lock_guard lock(mutex);
        if (++done == count) all_done.notify_all();
        if (!stays) return;
      }
    }
  };

  void serve() {
    pthread_setname_np(pthread_self(), "vesta codegen");
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !queue_.empty(); });
      std::shared_ptr<Batch> batch = std::move(queue_.back());
      queue_.pop_back();
      lock.unlock();
      batch->drain(false);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Batch>> queue_;
  size_t threads_ = 0;
};

// Readers are threads inside of a generator, the writer is a thread that forks. The writer waits for those that are
// inside, and others wait for it: std::shared_mutex alone would let them in first.
class ForkGate {
 public:
  using Inside = std::shared_lock<std::shared_mutex>;
  Inside enter() {
    const std::lock_guard turn(turn_);
    return Inside(inside_);
  }
  void close() {
    turn_.lock();
    inside_.lock();
  }
  void open() {
    inside_.unlock();
    turn_.unlock();
  }

 private:
  std::mutex turn_;
  std::shared_mutex inside_;
};

// The state of a process that compiles. fork() waits until no thread is inside of a generator: for the kernels that are
// being compiled, and for whole batches only where a generator's calls wait for each other. The child starts with a
// Process of its own: it has none of the parent's threads and would wait forever for locks that they held.
struct Process {
  ForkGate gate;
  Cache cache;
  Pool pool;

  Process() = default;
  explicit Process(const Process& parent) : cache(parent.cache) {}
  static Process& current() { return *place(); }

 private:
  static std::atomic<Process*>& place() {
    static auto* const p = new std::atomic<Process*>(new Process);
    return *p;
  }
  static const AtFork at_fork_;
};

const AtFork Process::at_fork_(
    ForkStage::Generators,
    [] {
      current().gate.close();
      current().cache.lock();
    },
    [] {
      current().cache.unlock();
      current().gate.open();
    },
    [] { place() = new Process(current()); });

Cache& cache() { return Process::current().cache; }

// The claimed symbols of a batch. Symbols that are not published in the end are abandoned.
class Claims {
 public:
  explicit Claims(const Code& code) : code_(code) {}
  Claims(const Claims&) = delete;
  ~Claims() {
    for (const std::string& symbol : symbols_) cache().abandon(symbol);
  }
  void add(const std::string& symbol) { symbols_.insert(symbol); }
  // May be called from any thread.
  std::shared_ptr<const Object> publish(const std::string& symbol, std::string bytes) {
    auto object = std::make_shared<Object>(Object{code_.form, symbol, std::move(bytes)});
    cache().publish(symbol, object);
    const std::lock_guard lock(mutex_);
    symbols_.erase(symbol);
    return object;
  }

 private:
  const Code& code_;
  std::mutex mutex_;
  std::unordered_set<std::string> symbols_;
};

// Builds the kernels that this batch has claimed: from the store, or by the generator.
void build(std::span<const Wanted> wanted, std::span<Result* const> results, Claims& claims, const Code& code,
           const CompileOptions& options, const Parallel& parallel) {
  std::vector<char> found(wanted.size(), 0);
  if (options.store && options.dump_dir.empty()) {
    parallel(wanted.size(), [&](size_t i) {
      auto bytes = options.store->find(wanted[i].symbol);
      if (!bytes) return;
      *results[i] = {claims.publish(wanted[i].symbol, std::move(*bytes)), Origin::Store, 0};
      found[i] = 1;
    });
  }
  std::vector<Wanted> left;
  std::vector<Result*> places;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (found[i]) continue;
    left.push_back(wanted[i]);
    places.push_back(results[i]);
  }
  if (left.empty()) return;
  code.generate(left, parallel, [&](size_t i, Generated made) {
    *places[i] = {claims.publish(left[i].symbol, std::move(made.bytes)), Origin::Compiled, made.memory};
    if (options.store) options.store->put(left[i].symbol, places[i]->object->bytes);
  });
}

void count(const Wanted& kernel, Origin origin) {
  using totals::Count;
  totals::of(origin == Origin::Compiled  ? Count::KernelsCompiled
             : origin == Origin::Process ? Count::KernelsInProcess
                                         : Count::KernelsInStore)
      .add();
  if (origin != Origin::Compiled)
    events::record(events::Type::Kernel, kernel.request->name, origin == Origin::Process ? "in process" : "in store",
                   kernel.symbol, kernel.symbol);
}

}  // namespace

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code& code,
                                  const CompileOptions& options) {
  std::unordered_map<std::string_view, size_t> first;  // text -> index into distinct
  std::vector<size_t> which;
  std::vector<Wanted> distinct;
  for (const Request& request : requests) {
    auto [it, fresh] = first.emplace(request.text, distinct.size());
    if (fresh) distinct.push_back({&request, "vesta_" + digest({request.text, code.fingerprint})});
    which.push_back(it->second);
  }
  const int width =
      options.workers > 0 ? options.workers : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Process& process = Process::current();
  const auto inside = code.calls_wait ? process.gate.enter() : ForkGate::Inside();
  const events::Ids ids = events::current();
  const Parallel parallel = [&](size_t count, const std::function<void(size_t)>& work) {
    std::vector<std::exception_ptr> errors(count);
    process.pool.run(width, options.cancel, count, [&](size_t i) {
      const events::Within within(ids);
      const auto inside = code.calls_wait ? ForkGate::Inside() : process.gate.enter();
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
    for (const std::exception_ptr& e : errors)
      if (e) std::rethrow_exception(e);
  };

  std::vector<Result> found(distinct.size());
  std::vector<size_t> open(distinct.size());
  std::iota(open.begin(), open.end(), size_t{0});
  // Objects that other threads build are waited for after all of this batch's own are published. If a build fails
  // there, the next round builds it here.
  while (!open.empty()) {
    Claims claims(code);
    std::vector<Wanted> mine;
    std::vector<Result*> places;
    std::vector<size_t> others;
    for (const size_t i : open) {
      switch (cache().claim(distinct[i].symbol, found[i].object)) {
        case Cache::Claim::Found: found[i].origin = Origin::Process; break;
        case Cache::Claim::Others: others.push_back(i); break;
        case Cache::Claim::Mine:
          claims.add(distinct[i].symbol);
          mine.push_back(distinct[i]);
          places.push_back(&found[i]);
      }
    }
    build(mine, places, claims, code, options, parallel);
    for (const size_t i : others) cache().wait(distinct[i].symbol);
    open = std::move(others);
  }
  for (size_t i = 0; i < found.size(); ++i) count(distinct[i], found[i].origin);
  std::vector<Result> result;
  for (size_t i : which) result.push_back(found[i]);
  return result;
}

}  // namespace vesta::codegen
