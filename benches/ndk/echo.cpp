/* The service of `benches/ndk.rs`, and a client that times it, as a HAL has them. `serve NAME` offers it until its standard
 * input ends; `call NAME` reads a line with a payload, samples, calls of each sample and microseconds to sleep before each, and
 * writes each sample's nanoseconds a call. */

#include <aidl/handoff/benches/BnEcho.h>
#include <android/binder_manager.h>
#include <android/binder_process.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using aidl::handoff::benches::BnEcho;
using aidl::handoff::benches::IEcho;
using Bytes = std::vector<uint8_t>;

class Echo : public BnEcho {
    ndk::ScopedAStatus echo(const Bytes& bytes, Bytes* back) override {
        *back = bytes;
        return ndk::ScopedAStatus::ok();
    }
};

static int serve(const char* name) {
    auto echo = ndk::SharedRefBase::make<Echo>();
    if (AServiceManager_addService(echo->asBinder().get(), name) != EX_NONE) return 1;
    ABinderProcess_startThreadPool();
    std::cout << "ready" << std::endl;
    std::cin.get();
    return 0;
}

static int call(const char* name) {
    auto echo = IEcho::fromBinder(ndk::SpAIBinder(AServiceManager_waitForService(name)));
    if (echo == nullptr) return 1;
    std::cout << "ready" << std::endl;
    size_t payload, samples, calls, pause;
    while (std::cin >> payload >> samples >> calls >> pause) {
        const Bytes bytes(payload, 7);
        Bytes back;
        std::vector<double> times(samples);
        for (double& time : times) {
            if (pause > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause));
            const auto begin = std::chrono::steady_clock::now();
            for (size_t i = 0; i < calls; i++) {
                if (!echo->echo(bytes, &back).isOk()) return 1;
            }
            const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
            time = took.count() / static_cast<double>(calls);
        }
        if (back != bytes) return 1;
        for (double time : times) std::cout << time << ' ';
        std::cout << std::endl;
    }
    return 0;
}

int main(int count, char** arguments) {
    if (count != 3) return 2;
    return std::string(arguments[1]) == "serve" ? serve(arguments[2]) : call(arguments[2]);
}
