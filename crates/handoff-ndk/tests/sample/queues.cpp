/* Queues of C++, whose other end is Rust's: both flavours, waiting, in place, and what is not a queue. */
#include <aidl/sample/queues/IQueues.h>
#include <android/binder_manager.h>
#include <fcntl.h>
#include <fmq/AidlMessageQueue.h>
#include <sys/mman.h>

#include <numeric>
#include <thread>
#include <type_traits>

#include "check.h"

using aidl::sample::queues::IQueues;
using aidl::sample::queues::Sample;
using android::AidlMessageQueue;
using android::hardware::EventFlag;
using android::SynchronizedReadWrite;
using android::UnsynchronizedWrite;

using Numbers = AidlMessageQueue<int32_t, SynchronizedReadWrite>;
using Samples = AidlMessageQueue<Sample, UnsynchronizedWrite>;

constexpr int64_t kSoon = 1000 * 1000;
constexpr int64_t kLong = 60LL * 1000 * 1000 * 1000;

static void itsOwn() {
    Numbers queue(4, true);
    CHECK(queue.isValid() && queue.getQuantumCount() == 4 && queue.getQuantumSize() == 4);
    CHECK(queue.availableToWrite() == 4 && queue.availableToRead() == 0);
    int32_t numbers[5] = {1, 2, 3, 4, 5}, back[5] = {};
    CHECK(!queue.read(back) && !queue.write(numbers, 5) && !queue.write(nullptr));
    CHECK(queue.write(numbers, 3) && queue.read(back, 2) && back[1] == 2);

    /* Round the ring's end, in place. */
    Numbers::MemTransaction room;
    CHECK(queue.beginWrite(3, &room));
    CHECK(room.getFirstRegion().getLength() == 1 && room.getSecondRegion().getLengthInBytes() == 8);
    CHECK(room.copyTo(numbers + 1, 0, 3) && !room.copyTo(numbers, 1, 3) && room.getSlot(3) == nullptr);
    *room.getSlot(2) = 40;
    CHECK(queue.availableToRead() == 1);
    CHECK(queue.commitWrite(3) && queue.availableToRead() == 4 && !queue.beginWrite(1, &room));
    CHECK(room.getFirstRegion().getAddress() == nullptr);
    Numbers::MemTransaction there;
    CHECK(queue.beginRead(4, &there) && there.copyFrom(back, 0, 4));
    CHECK(back[0] == 3 && back[1] == 2 && back[2] == 3 && back[3] == 40);
    CHECK(queue.commitRead(1) && queue.availableToRead() == 3 && !queue.commitRead(4));

    /* Waiting, with a flag of the caller's, in memory that nobody shares. */
    std::atomic<uint32_t> word{0};
    EventFlag* flag = nullptr;
    CHECK(EventFlag::createEventFlag(nullptr, &flag) == android::BAD_VALUE && flag == nullptr);
    CHECK(EventFlag::createEventFlag(&word, &flag) == android::NO_ERROR);
    uint32_t raised = 7;
    CHECK(flag->wait(4, &raised, kSoon) == android::TIMED_OUT && raised == 0);
    CHECK(flag->wait(0, &raised) == android::BAD_VALUE && flag->wake(0) == android::NO_ERROR);
    CHECK(flag->wake(6) == android::NO_ERROR && flag->wait(4, &raised) == android::NO_ERROR && raised == 4);
    CHECK(word == 2);
    CHECK(!queue.readBlocking(back, 4, 8, 16, kSoon, flag));
    std::thread reader([&] { CHECK(queue.readBlocking(back, 4, 8, 16, kLong, flag) && back[3] == 1); });
    CHECK(queue.writeBlocking(numbers, 1, 8, 16, kLong, flag));
    reader.join();
    CHECK((word & 8) == 8);
    CHECK(EventFlag::deleteEventFlag(&flag) == android::NO_ERROR && flag == nullptr);
    CHECK(EventFlag::deleteEventFlag(&flag) == android::BAD_VALUE);
    CHECK(Numbers(1).getEventFlagWord() == nullptr && !Numbers(1).readBlocking(back, 1, kSoon));
}

static void inMemoryOfItsOwn() {
    ndk::ScopedFileDescriptor memory(memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    CHECK(ftruncate(memory.get(), 4096) == 0);
    CHECK(!Numbers(1025, false, memory.dup(), 4096).isValid());
    CHECK(!Numbers(8, false, ndk::ScopedFileDescriptor(-2), 4096).isValid());
    CHECK(Numbers(8, false, ndk::ScopedFileDescriptor(), 0).isValid());
    CHECK(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    Numbers queue(1024, false, memory.dup(), 4096);
    CHECK(queue.isValid());
    int32_t number = 9;
    CHECK(queue.write(&number));
    CHECK(pread(memory.get(), &(number = 0), 4, 0) == 4 && number == 9);
    auto descriptor = queue.dupeDesc();
    CHECK(descriptor.handle.fds.size() == 2);

    /* The same queue twice: one keeps the counters, the next begins anew. */
    Numbers same(descriptor, false);
    CHECK(same.isValid() && same.availableToRead() == 1);
    CHECK(Numbers(descriptor).availableToRead() == 0 && queue.availableToRead() == 0);
}

static void whatIsNoQueue() {
    CHECK(!Numbers(0).isValid() && !Numbers(SIZE_MAX / 2).isValid());
    Numbers none(0);
    int32_t number = 0;
    CHECK(!none.write(&number) && !none.read(&number) && none.availableToRead() == 0 && none.getQuantumCount() == 0);
    CHECK(none.dupeDesc().grantors.empty());
    auto changed = [&](auto change) {
        auto descriptor = Numbers(8).dupeDesc();
        change(descriptor);
        return Numbers(descriptor).isValid();
    };
    CHECK(changed([](auto&) {}));
    CHECK(!changed([](auto& of) { of.quantum = 8; }));
    CHECK(!changed([](auto& of) { of.quantum = -4; }));
    CHECK(!changed([](auto& of) { of.flags = 2; }));
    CHECK(!changed([](auto& of) { of.grantors.clear(); }));
    CHECK(!changed([](auto& of) { of.grantors[2].extent = 30; }));
    CHECK(!changed([](auto& of) { of.grantors[0].extent = -8; }));
    CHECK(!changed([](auto& of) { of.grantors[1].fdIndex = 1; }));
    CHECK(!changed([](auto& of) { of.handle.fds.clear(); }));
    CHECK(!changed([](auto& of) { of.handle.fds[0].set(-1); }));
}

static void withRust() {
    auto service = IQueues::fromBinder(ndk::SpAIBinder(AServiceManager_waitForService("queues")));
    CHECK(service != nullptr);

    /* What the book shows. */
    const int32_t values[] = {1, 2, 3};
    int32_t sum = 0;
    // ANCHOR: queue
    AidlMessageQueue<int32_t, SynchronizedReadWrite> queue(128, true);        // with an event flag, so that both ends can wait
    queue.writeBlocking(values, 3);
    ndk::ScopedAStatus status = service->sum(queue.dupeDesc(), 3, &sum);  // the descriptor travels in the call
    // ANCHOR_END: queue
    CHECK(status.isOk() && sum == 6);

    /* More numbers than the queue holds at a time: both ends wait for each other. */
    constexpr int32_t kCount = 1000;
    Numbers numbers(16, true);
    std::thread writer([&] {
        for (int32_t number = 1; number <= kCount; number++) CHECK(numbers.writeBlocking(&number, 1, kLong));
    });
    CHECK(service->sum(numbers.dupeDesc(), kCount, &sum).isOk());
    writer.join();
    CHECK(sum == kCount * (kCount + 1) / 2);

    CHECK(service->count(numbers.dupeDesc(), kCount).isOk());
    for (int32_t number = 0; number < kCount; number += 8) {
        int32_t some[8];
        CHECK(numbers.readBlocking(some, 8, kLong));
        for (int32_t i = 0; i < 8; i++) CHECK(some[i] == number + i);
    }

    android::MQDescriptor<Sample, UnsynchronizedWrite> descriptor;
    CHECK(service->samples(&descriptor).isOk());
    Samples samples(descriptor, false), others(descriptor, false);
    CHECK(samples.isValid() && samples.getQuantumSize() == sizeof(Sample) && samples.availableToRead() == 3);
    Sample got[3];
    CHECK(samples.read(got, 3) && got[2].at == 3 && got[2].channel == -3 && got[2].value == 1.5f);
    CHECK(got[2].quality == Sample::Quality::GOOD && got[1].isLast == false && got[2].isLast == true);
    CHECK(got[2].ranges[1].unit == u'V' && got[2].ranges[1].low == -0.5 && got[2].ranges[1].high == 3);
    /* Each reader sees all of them; the writer does not wait for any. */
    CHECK(samples.availableToRead() == 0 && others.availableToRead() == 3);
    Sample more{};
    for (size_t i = 0; i < samples.getQuantumCount(); i++) CHECK(samples.write(&more));
    CHECK(!others.read(got) && others.availableToRead() == 0 && samples.availableToRead() > 0);
}

int main() {
    itsOwn();
    inMemoryOfItsOwn();
    whatIsNoQueue();
    withRust();
    puts("all is well");
}
