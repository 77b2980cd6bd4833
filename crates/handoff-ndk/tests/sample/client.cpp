// Calls the lamp, in every way that its interface knows.
#include <aidl/sample/hal/BnLampCallback.h>
#include <aidl/sample/hal/ILamp.h>
#include <android/binder_manager.h>
#include <android/binder_process.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "check.h"

using ::aidl::sample::hal::BnLampCallback;
using ::aidl::sample::hal::ILamp;
using ::aidl::sample::hal::LampState;
using ::ndk::ScopedAStatus;
using ::ndk::ScopedFileDescriptor;
using ::ndk::SpAIBinder;

namespace {

struct Event {
    std::mutex lock;
    std::condition_variable changed;
    int level = -1;
    std::string why;
    int deaths = 0;
    int unlinked = 0;

    template <typename Until>
    void wait(Until until) {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, until);
    }
};

class Listener : public BnLampCallback {
public:
    explicit Listener(Event* event) : mEvent(event) {}
    ScopedAStatus onChanged(int32_t level, const std::string& why) override {
        std::lock_guard<std::mutex> held(mEvent->lock);
        mEvent->level = level;
        mEvent->why = why;
        mEvent->changed.notify_all();
        return ScopedAStatus::ok();
    }

private:
    Event* mEvent;
};

LampState stateOf(const SpAIBinder& owner, int fd) {
    LampState state;
    state.name = "käse 🧀";
    state.history = {1, -2, INT32_MAX};
    state.owner = owner;
    state.log = ScopedFileDescriptor(dup(fd));
    return state;
}

}  // namespace

int main() {
    alarm(120);
    const std::string instance = std::string(ILamp::descriptor) + "/default";
    SpAIBinder binder(AServiceManager_waitForService(instance.c_str()));
    CHECK(binder.get() != nullptr);
    CHECK(AIBinder_isRemote(binder.get()) && AIBinder_isAlive(binder.get()));
    CHECK(AIBinder_ping(binder.get()) == STATUS_OK);
    CHECK(AServiceManager_checkService("nobody") == nullptr);
    std::shared_ptr<ILamp> lamp = ILamp::fromBinder(binder);
    CHECK(lamp != nullptr && lamp->isRemote() && lamp->asBinder() == binder);
    // One object has one pointer.
    CHECK(SpAIBinder(AServiceManager_checkService(instance.c_str())) == binder);
    // And is not what it is not.
    CHECK(::aidl::sample::hal::ILampCallback::fromBinder(binder) == nullptr);

    int32_t sum = 0;
    CHECK(lamp->add(40, 2, &sum).isOk() && sum == 42);
    CHECK(lamp->add(INT32_MAX, 1, &sum).isOk() && sum == INT32_MIN);

    std::optional<std::string> text;
    for (const char* sent : {"", "a", "ab", "abc", "käse 🧀"}) {
        CHECK(lamp->echo(std::string(sent), &text).isOk() && text == std::string(sent));
    }
    CHECK(lamp->echo(std::nullopt, &text).isOk() && !text.has_value());
    std::string zero("a\0b", 3), plain;
    CHECK(lamp->utf(zero, &plain).isOk() && plain == zero);
    CHECK(lamp->utf("\xff\xfe", &plain).getStatus() == STATUS_BAD_VALUE);

    int32_t pid = 0;
    CHECK(lamp->callerPid(&pid).isOk() && pid == getpid());
    CHECK(!AIBinder_isHandlingTransaction());

    double mixed = 0;
    CHECK(lamp->mix(u'c', -3, 1LL << 40, 0.25f, true, &mixed).isOk());
    CHECK(mixed == 'c' - 3 + static_cast<double>(1LL << 40) + 0.25 + 0.5);

    Event event;
    std::shared_ptr<Listener> listener = ::ndk::SharedRefBase::make<Listener>(&event);
    // Nor is an object of this process.
    CHECK(ILamp::fromBinder(listener->asBinder()) == nullptr);
    CHECK(lamp->setCallback(listener).isOk());
    CHECK(lamp->setLevel(7).isOk());
    event.wait([&] { return event.level == 7; });
    CHECK(event.why == "set");
    CHECK(lamp->setLevelLater(8).isOk());
    event.wait([&] { return event.level == 8; });
    std::shared_ptr<::aidl::sample::hal::ILampCallback> current;
    CHECK(lamp->current(&current).isOk() && current.get() == listener.get());
    ScopedAStatus refused = lamp->setLevel(11);
    CHECK(refused.getExceptionCode() == EX_ILLEGAL_ARGUMENT && strcmp(refused.getMessage(), "no such level") == 0);

    FILE* file = tmpfile();
    int fd = fileno(file);
    LampState state = stateOf(listener->asBinder(), fd), second;
    CHECK(lamp->describe(&state, &second).isOk());
    CHECK(state.level == 4 && state.history == (std::vector<int32_t>{1, -2, INT32_MAX, 4}));
    CHECK(second.name == "käse 🧀!" && !second.note && second.level == 3 && second.kind == "lamp");
    CHECK(second.warmth == 1.5f && second.on && second.letter == u'a' && second.tiny == 4 && second.exact == 2.5);
    CHECK(second.owner == listener->asBinder() && second.log.get() >= 0 && second.log.get() != fd);

    std::vector<int32_t> a = {1, 2}, b(3), back;
    std::vector<Byte> c = {1, 2, 3, 4, 5};
    CHECK(lamp->arrays(a, &b, &c, {true, false, true}, {u'a', u'b'}, {7, 8}, {9.0}, &back).isOk());
    CHECK(b == (std::vector<int32_t>{0, 1, 2}) && c == (std::vector<Byte>{2, 3, 4, 5, 6}));
    CHECK(back == (std::vector<int32_t>{1, 2, 1, 0, 1, 'a', 'b', 7, 8, 9}));
    // An answer for which there is no room, on engines that have an end of it, and one after it.
    const std::vector<int32_t> many(300000, 7);
    std::vector<int32_t> more(300000);
    const auto answered = lamp->arrays(many, &more, &c, {}, {}, {}, {}, &back);
    CHECK(answered.isOk() ? back == many : answered.getStatus() == STATUS_FAILED_TRANSACTION);
    CHECK(lamp->arrays({}, &b, &c, {}, {}, {}, {9.0}, &back).isOk() && back == std::vector<int32_t>{9});
    std::vector<std::string> strings, copied;
    CHECK(lamp->strings({"x", ""}, &copied, std::vector<std::optional<std::string>>{"y", std::nullopt}, &strings).isOk());
    CHECK(copied == (std::vector<std::string>{"x", ""}) && strings == (std::vector<std::string>{"y", "null"}));
    CHECK(lamp->strings({}, &copied, std::nullopt, &strings).isOk());
    CHECK(copied.empty() && strings == std::vector<std::string>{"none"});
    std::vector<LampState> states, reversed;
    for (int at = 0; at < 20; ++at) {
        states.push_back(stateOf(listener->asBinder(), fd));
        states.back().level = at;
    }
    CHECK(lamp->states(states, &reversed).isOk() && reversed.size() == 20 && reversed[0].level == 19);
    CHECK(reversed[19].owner == listener->asBinder());

    SpAIBinder same;
    CHECK(lamp->same(SpAIBinder(), &same).isOk() && same.get() == nullptr);
    CHECK(lamp->same(binder, &same).isOk() && same == binder);
    CHECK(lamp->same(listener->asBinder(), &same).isOk() && same == listener->asBinder());

    ScopedFileDescriptor opened;
    CHECK(lamp->open(ScopedFileDescriptor(dup(fd)), &opened).isOk() && opened.get() >= 0);
    char read[7] = {};
    CHECK(pread(opened.get(), read, 6, 0) == 6 && strcmp(read, "served") == 0);
    CHECK(lamp->open(ScopedFileDescriptor(), &opened).getStatus() == STATUS_UNEXPECTED_NULL);

    refused = lamp->refuse(ILamp::REFUSED);
    CHECK(refused.getServiceSpecificError() == 42 && strcmp(refused.getMessage(), "refused") == 0);
    CHECK(lamp->refuse(EX_SECURITY).getExceptionCode() == EX_SECURITY);
    CHECK(lamp->refuse(STATUS_NO_INIT).isOk() == false);
    for (binder_status_t status : {STATUS_FDS_NOT_ALLOWED, STATUS_BAD_TYPE, STATUS_UNEXPECTED_NULL}) {
        CHECK(lamp->refuse(status).getStatus() == status);
    }

    FILE* dumped = tmpfile();
    const char* arguments[] = {"--all", "twice"};
    CHECK(lamp->dump(fileno(dumped), arguments, 2) == STATUS_OK);
    char told[100] = {};
    CHECK(pread(fileno(dumped), told, sizeof(told) - 1, 0) > 0);
    CHECK(strcmp(told, "a lamp, asked with 2 arguments --all twice") == 0);

    AIBinder_DeathRecipient* recipient = AIBinder_DeathRecipient_new([](void* cookie) {
        Event* event = static_cast<Event*>(cookie);
        std::lock_guard<std::mutex> held(event->lock);
        event->deaths++;
        event->changed.notify_all();
    });
    AIBinder_DeathRecipient_setOnUnlinked(recipient, [](void* cookie) {
        Event* event = static_cast<Event*>(cookie);
        std::lock_guard<std::mutex> held(event->lock);
        event->unlinked++;
        event->changed.notify_all();
    });
    int other = 0;
    CHECK(AIBinder_linkToDeath(binder.get(), recipient, &event) == STATUS_OK);
    CHECK(AIBinder_unlinkToDeath(binder.get(), recipient, &other) == STATUS_NAME_NOT_FOUND);
    CHECK(AIBinder_unlinkToDeath(binder.get(), recipient, &event) == STATUS_OK && event.unlinked == 1);
    CHECK(AIBinder_unlinkToDeath(binder.get(), recipient, &event) == STATUS_NAME_NOT_FOUND);
    CHECK(AIBinder_linkToDeath(listener->asBinder().get(), recipient, &event) == STATUS_INVALID_OPERATION);
    CHECK(AIBinder_linkToDeath(binder.get(), recipient, &event) == STATUS_OK);
    CHECK(event.deaths == 0);
    CHECK(lamp->die().getStatus() == STATUS_DEAD_OBJECT);
    event.wait([&] { return event.deaths == 1 && event.unlinked == 2; });
    CHECK(!AIBinder_isAlive(binder.get()));
    CHECK(lamp->add(1, 2, &sum).getStatus() == STATUS_DEAD_OBJECT);
    AIBinder_DeathRecipient_delete(recipient);
    fclose(file);
    fclose(dumped);
    printf("all is well\n");
}
