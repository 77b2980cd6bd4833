// Sends parcelables of types that an interface does not know to a service in Rust, which takes them out and puts them in again.
#include <aidl/sample/held/Choice.h>
#include <aidl/sample/held/Extra.h>
#include <aidl/sample/held/IHolds.h>
#include <android/binder_manager.h>
#include <stdio.h>

#include <random>

#include "check.h"

using namespace ::aidl::sample::held;

static std::mt19937 chance(21);

static std::string text() {
    static const char* parts[] = {"", "a", "ß", "𝄞", "\n", "zero", "中文"};
    std::string made;
    for (uint32_t left = chance() % 5; left > 0; --left) made += parts[chance() % 7];
    return made;
}

static Choice choice() {
    return chance() % 2 == 0 ? Choice::make<Choice::number>(static_cast<int32_t>(chance())) : Choice::make<Choice::text>(text());
}

/* What is stable holds what is stable alone, or nothing. */
static Extra extra(int depth) {
    Extra made;
    made.text = text();
    for (uint32_t left = chance() % 4; left > 0; --left) made.numbers.push_back(static_cast<int64_t>(chance()) << 31);
    CHECK(made.more.setParcelable(choice()) == STATUS_BAD_VALUE);
    if (depth > 0) CHECK(made.more.setParcelable(extra(depth - 1)) == STATUS_OK);
    return made;
}

template <typename T>
static std::optional<T> held(const ndk::AParcelableHolder& holder) {
    std::optional<T> value;
    CHECK(holder.getParcelable(&value) == STATUS_OK);
    return value;
}

static void same(const Extra& one, const Extra& other) {
    CHECK(one.text == other.text && one.numbers == other.numbers);
    std::optional<Extra> more = held<Extra>(one.more), others = held<Extra>(other.more);
    CHECK(more.has_value() == others.has_value());
    if (more) same(*more, *others);
}

int main() {
    auto service = IHolds::fromBinder(ndk::SpAIBinder(AServiceManager_waitForService("holds")));
    CHECK(service != nullptr);
    for (int round = 0; round < 300; ++round) {
        Extended sent, back;
        sent.number = static_cast<int32_t>(chance());
        if (chance() % 2 == 0) sent.name = text();
        const uint32_t kind = chance() % 3;
        const Extra added = extra(2);
        const Choice chosen = choice();
        if (kind == 1) CHECK(sent.extension.setParcelable(added) == STATUS_OK);
        if (kind == 2) CHECK(sent.extension.setParcelable(chosen) == STATUS_OK);
        CHECK(service->echo(sent, &back).isOk());
        CHECK(back.number == sent.number && back.name == sent.name);
        CHECK(held<Extra>(back.extension).has_value() == (kind == 1));
        CHECK(held<Choice>(back.extension).has_value() == (kind == 2));
        if (kind == 1) same(added, *held<Extra>(back.extension));
        if (kind == 2) CHECK(chosen == *held<Choice>(back.extension));
        Extra stable;
        CHECK(service->echoStable(added, &stable).isOk());
        same(added, stable);
    }
    puts("all is well");
}
