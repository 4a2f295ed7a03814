#include "codegen/batch.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "base/digest.h"

namespace vesta::codegen {

namespace {

using machine::Object;

Result build_or_find(const Request& request, const std::string& symbol, const Code& code,
                     const CompileOptions& options) {
  if (options.store && options.dump_dir.empty()) {
    if (auto bytes = options.store->find(symbol))
      return {std::make_shared<Object>(Object{code.form, symbol, std::move(*bytes)}), Origin::Store};
  }
  auto object = std::make_shared<Object>(Object{code.form, symbol, code.generate(request, symbol)});
  if (options.store) options.store->put(symbol, object->bytes);
  return {std::move(object), Origin::Compiled};
}

// Symbol -> object. One that a thread compiles makes the others that want it wait.
class Cache {
 public:
  struct Slot {
    std::weak_ptr<const Object> object;
    bool building = false;
  };

  Result get(const Request& request, const Code& code, const CompileOptions& options) {
    const std::string symbol = "vesta_" + digest({request.text, code.fingerprint});
    std::unique_lock lock(mutex_);
    for (;;) {
      Slot& slot = slots_[symbol];
      if (auto object = slot.object.lock()) return {std::move(object), Origin::Process};
      if (!slot.building) break;
      built_.wait(lock);
    }
    slots_[symbol].building = true;
    lock.unlock();
    Result result;
    std::exception_ptr error;
    try {
      result = build_or_find(request, symbol, code, options);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      slots_.erase(symbol);
    } else {
      Slot& slot = slots_[symbol];
      slot.building = false;
      slot.object = result.object;
      if (slots_.size() > sweep_at_) sweep();
    }
    built_.notify_all();
    if (error) std::rethrow_exception(error);
    return result;
  }

 private:
  void sweep() {
    std::erase_if(slots_, [](const auto& s) { return !s.second.building && s.second.object.expired(); });
    sweep_at_ = std::max<size_t>(1024, 2 * slots_.size());
  }

  std::mutex mutex_;
  std::condition_variable built_;
  std::unordered_map<std::string, Slot> slots_;
  size_t sweep_at_ = 1024;
};

Cache& cache() {
  static Cache* c = new Cache;
  return *c;
}

// Threads that live as long as the process: a thread keeps what its generator made between compiles. The caller of
// run() works too.
class Pool {
 public:
  // Calls work(i) for i in [0, count), on at most `width` threads; returns when all are done.
  void run(int width, size_t count, const std::function<void(size_t)>& work) {
    auto batch = std::make_shared<Batch>();
    batch->count = count;
    batch->work = &work;
    int helpers = std::min<int>(width, static_cast<int>(count)) - 1;
    if (helpers > 0) {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(threads_) < helpers) {
        std::thread([this] { serve(); }).detach();
        ++threads_;
      }
      for (int i = 0; i < helpers; ++i) queue_.push_back(batch);
      wake_.notify_all();
    }
    batch->drain();
    std::unique_lock lock(batch->mutex);
    batch->all_done.wait(lock, [&] { return batch->done == batch->count; });
  }

 private:
  struct Batch {
    std::atomic<size_t> next{0};
    size_t count = 0;
    const std::function<void(size_t)>* work = nullptr;
    std::mutex mutex;
    std::condition_variable all_done;
    size_t done = 0;

    void drain() {
      for (size_t i = next++; i < count; i = next++) {
        (*work)(i);
        std::lock_guard lock(mutex);
        if (++done == count) all_done.notify_all();
      }
    }
  };

  void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !queue_.empty(); });
      std::shared_ptr<Batch> batch = std::move(queue_.back());
      queue_.pop_back();
      lock.unlock();
      batch->drain();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Batch>> queue_;
  size_t threads_ = 0;
};

// What a process needs to compile. fork() waits until no compile is at work, and a child begins with its own: it has
// none of the threads, and would wait for ever for what they held.
struct Process {
  std::shared_mutex compiling;
  Pool pool;

  static Process& current() { return *place(); }

 private:
  static std::atomic<Process*>& place() {
    static auto* p = [] {
      pthread_atfork([] { current().compiling.lock(); }, [] { current().compiling.unlock(); },
                     [] { place() = new Process; });
      return new std::atomic<Process*>(new Process);
    }();
    return *p;
  }
};

}  // namespace

std::vector<Result> compile_batch(const std::vector<Request>& requests, const Code& code,
                                  const CompileOptions& options) {
  std::unordered_map<std::string_view, size_t> first;  // text -> index into distinct
  std::vector<size_t> distinct, which;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto [it, fresh] = first.emplace(requests[i].text, distinct.size());
    if (fresh) distinct.push_back(i);
    which.push_back(it->second);
  }
  std::vector<Result> found(distinct.size());
  std::vector<std::exception_ptr> errors(distinct.size());
  int width =
      options.workers > 0 ? options.workers : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Process& process = Process::current();
  const std::shared_lock no_fork(process.compiling);
  process.pool.run(width, distinct.size(), [&](size_t i) {
    try {
      found[i] = cache().get(requests[distinct[i]], code, options);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& e : errors) {
    if (e) std::rethrow_exception(e);
  }
  std::vector<Result> result;
  for (size_t i : which) result.push_back(found[i]);
  return result;
}

}  // namespace vesta::codegen
