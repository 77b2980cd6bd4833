// A HAL as it is written for Android: nothing here knows that it runs elsewhere.
#include <aidl/sample/hal/BnLamp.h>
#include <android/binder_manager.h>
#include <android/binder_process.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mutex>

using ::aidl::sample::hal::BnLamp;
using ::aidl::sample::hal::ILamp;
using ::aidl::sample::hal::ILampCallback;
using ::aidl::sample::hal::LampState;
using ::ndk::ScopedAStatus;
using ::ndk::ScopedFileDescriptor;
using ::ndk::SpAIBinder;

namespace {

LampState copyOf(const LampState& from) {
    LampState to;
    to.level = from.level;
    to.name = from.name;
    to.note = from.note;
    to.history = from.history;
    to.owner = from.owner;
    to.log = ScopedFileDescriptor(dup(from.log.get()));
    to.warmth = from.warmth;
    to.on = from.on;
    to.letter = from.letter;
    to.tiny = from.tiny;
    to.big = from.big;
    to.exact = from.exact;
    to.kind = from.kind;
    return to;
}

class Lamp : public BnLamp {
    ScopedAStatus add(int32_t a, int32_t b, int32_t* sum) override {
        *sum = static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
        return ScopedAStatus::ok();
    }
    ScopedAStatus echo(const std::optional<std::string>& text, std::optional<std::string>* back) override {
        *back = text;
        return ScopedAStatus::ok();
    }
    ScopedAStatus setCallback(const std::shared_ptr<ILampCallback>& callback) override {
        std::lock_guard<std::mutex> lock(mLock);
        mCallback = callback;
        return ScopedAStatus::ok();
    }
    ScopedAStatus setLevel(int32_t level) override {
        if (level < 0 || level > ILamp::MAX_LEVEL) {
            return ScopedAStatus::fromExceptionCodeWithMessage(EX_ILLEGAL_ARGUMENT, "no such level");
        }
        std::shared_ptr<ILampCallback> callback;
        {
            std::lock_guard<std::mutex> lock(mLock);
            callback = mCallback;
        }
        return callback == nullptr ? ScopedAStatus::ok() : callback->onChanged(level, "set");
    }
    ScopedAStatus setLevelLater(int32_t level) override { return setLevel(level); }
    ScopedAStatus describe(LampState* state, LampState* second) override {
        *second = copyOf(*state);
        second->name += "!";
        state->level += 1;
        state->history.push_back(state->level);
        return ScopedAStatus::ok();
    }
    ScopedAStatus arrays(const std::vector<int32_t>& a, std::vector<int32_t>* b, std::vector<Byte>* c,
                         const std::vector<bool>& d, const std::vector<char16_t>& e, const std::vector<int64_t>& f,
                         const std::vector<double>& g, std::vector<int32_t>* back) override {
        for (size_t at = 0; at < b->size(); ++at) (*b)[at] = static_cast<int32_t>(at);
        for (Byte& byte : *c) byte = static_cast<Byte>(byte + 1);
        *back = a;
        for (bool one : d) back->push_back(one);
        for (char16_t one : e) back->push_back(one);
        for (int64_t one : f) back->push_back(static_cast<int32_t>(one));
        for (double one : g) back->push_back(static_cast<int32_t>(one));
        return ScopedAStatus::ok();
    }
    ScopedAStatus strings(const std::vector<std::string>& a, std::vector<std::string>* b,
                          const std::optional<std::vector<std::optional<std::string>>>& n,
                          std::vector<std::string>* back) override {
        *b = a;
        for (const auto& one : n.value_or(std::vector<std::optional<std::string>>())) back->push_back(one.value_or("null"));
        if (!n) back->push_back("none");
        return ScopedAStatus::ok();
    }
    ScopedAStatus states(const std::vector<LampState>& states, std::vector<LampState>* back) override {
        for (auto one = states.rbegin(); one != states.rend(); ++one) back->push_back(copyOf(*one));
        return ScopedAStatus::ok();
    }
    ScopedAStatus same(const SpAIBinder& object, SpAIBinder* back) override {
        *back = object;
        return ScopedAStatus::ok();
    }
    ScopedAStatus current(std::shared_ptr<ILampCallback>* callback) override {
        std::lock_guard<std::mutex> lock(mLock);
        *callback = mCallback;
        return ScopedAStatus::ok();
    }
    ScopedAStatus open(const ScopedFileDescriptor& file, ScopedFileDescriptor* back) override {
        if (write(file.get(), "served", 6) != 6) return ScopedAStatus::fromServiceSpecificError(1);
        back->set(dup(file.get()));
        return ScopedAStatus::ok();
    }
    ScopedAStatus utf(const std::string& text, std::string* back) override {
        *back = text;
        return ScopedAStatus::ok();
    }
    ScopedAStatus mix(char16_t c, int8_t b, int64_t l, float f, bool z, double* sum) override {
        *sum = c + b + static_cast<double>(l) + f + (z ? 0.5 : 0);
        return ScopedAStatus::ok();
    }
    ScopedAStatus callerPid(int32_t* pid) override {
        *pid = AIBinder_isHandlingTransaction() ? AIBinder_getCallingPid() : -1;
        return ScopedAStatus::ok();
    }
    ScopedAStatus refuse(int32_t how) override {
        if (how > 0) return ScopedAStatus::fromServiceSpecificErrorWithMessage(how, "refused");
        if (how < -1000) return ScopedAStatus::fromStatus(how);
        return ScopedAStatus::fromExceptionCode(how);
    }
    ScopedAStatus die() override { _exit(0); }
    binder_status_t dump(int fd, const char** args, uint32_t count) override {
        dprintf(fd, "a lamp, asked with %u arguments", count);
        for (uint32_t at = 0; at < count; ++at) dprintf(fd, " %s", args[at]);
        return STATUS_OK;
    }

    std::mutex mLock;
    std::shared_ptr<ILampCallback> mCallback;
};

}  // namespace

int main() {
    ABinderProcess_setThreadPoolMaxThreadCount(4);
    ABinderProcess_startThreadPool();
    std::shared_ptr<Lamp> lamp = ::ndk::SharedRefBase::make<Lamp>();
    const std::string instance = std::string(ILamp::descriptor) + "/default";
    if (AServiceManager_addService(lamp->asBinder().get(), instance.c_str()) != EX_NONE) return 1;
    printf("ready\n");
    fflush(stdout);
    ABinderProcess_joinThreadPool();
}
