// Each class that calls or serves tells of every call, once somebody listens.
#include <aidl/sample/logged/BnLogged.h>
#include <aidl/sample/logged/BpLogged.h>
#include <stdio.h>

#include <algorithm>

#include "check.h"

using namespace ::aidl::sample::logged;
using ::ndk::ScopedAStatus;
using Values = std::vector<std::pair<std::string, std::string>>;

class Logged : public BnLogged {
    ScopedAStatus twice(const std::vector<std::string>& value, std::vector<int32_t>* numbers,
                        std::vector<std::string>* said, std::vector<std::string>* twice) override {
        *twice = value;
        twice->insert(twice->end(), value.begin(), value.end());
        std::reverse(numbers->begin(), numbers->end());
        *said = {"done"};
        return ScopedAStatus::ok();
    }
    ScopedAStatus fails() override { return ScopedAStatus::fromServiceSpecificErrorWithMessage(7, "on purpose"); }
};

template <typename Log>
static void twice(const Log& log) {
    CHECK(log.interface_name == "sample.logged.ILogged" && log.method_name == "twice" && log.duration_ms >= 0);
    CHECK((log.input_args == Values{{"in_value", "[a, b]"}, {"in_numbers", "[1, 2]"}}));
    CHECK((log.output_args == Values{{"in_numbers", "[2, 1]"}, {"out_said", "[done]"}}));
    CHECK(log.result == "[a, b, a, b]");
    CHECK(log.exception_code == EX_NONE && log.exception_message.empty() && log.transaction_error == STATUS_OK);
}

template <typename Log>
static void fails(const Log& log) {
    CHECK(log.method_name == "fails" && log.result.empty() && log.input_args.empty() && log.output_args.empty());
    CHECK(log.exception_code == EX_SERVICE_SPECIFIC && log.exception_message == "on purpose");
    CHECK(log.service_specific_error_code == 7);
}

int main() {
    auto service = ::ndk::SharedRefBase::make<Logged>();
    auto proxy = ::ndk::SharedRefBase::make<BpLogged>(service->asBinder());
    std::vector<BpLogged::TransactionLog> calls;
    std::vector<BnLogged::TransactionLog> served;
    auto callBoth = [&] {
        std::vector<int32_t> numbers = {1, 2};
        std::vector<std::string> said, result;
        CHECK(proxy->twice({"a", "b"}, &numbers, &said, &result).isOk());
        CHECK(result.size() == 4 && numbers[0] == 2 && said[0] == "done");
        CHECK(proxy->fails().getServiceSpecificError() == 7);
    };
    callBoth();
    BpLogged::logFunc = [&](const BpLogged::TransactionLog& log) { calls.push_back(log); };
    BnLogged::logFunc = [&](const BnLogged::TransactionLog& log) { served.push_back(log); };
    callBoth();
    CHECK(calls.size() == 2 && served.size() == 2);
    twice(calls[0]);
    twice(served[0]);
    CHECK(calls[0].proxy_address == proxy.get() && calls[0].stub_address == nullptr);
    CHECK(served[0].proxy_address == nullptr && served[0].stub_address == service.get());
    fails(calls[1]);
    fails(served[1]);
    puts("all is well");
}
