// Sends parcelables of types that an interface does not know to a service in Rust, which takes them out and puts them in again.
#include <aidl/sample/held/Choice.h>
#include <aidl/sample/held/Extra.h>
#include <aidl/sample/held/IHolds.h>
#include <android/binder_manager.h>
#include <stdio.h>

#include <cmath>
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

using ::aidl::android::os::PersistableBundle;

static PersistableBundle bundle(int depth) {
    PersistableBundle made;
    if (chance() % 2 == 0) made.putBoolean("flag", chance() % 2 == 0);
    if (chance() % 2 == 0) made.putInt("int " + text(), static_cast<int32_t>(chance()));
    if (chance() % 2 == 0) made.putLong("long", INT64_MIN + chance());
    if (chance() % 2 == 0) made.putDouble("double", -0.5 * chance());
    if (chance() % 2 == 0) made.putString(text(), text());
    if (chance() % 2 == 0) made.putBooleanVector("flags", {true, false, chance() % 2 == 0});
    if (chance() % 2 == 0) made.putIntVector("ints", {INT32_MIN, static_cast<int32_t>(chance())});
    if (chance() % 2 == 0) made.putLongVector("longs", {INT64_MAX});
    if (chance() % 2 == 0) made.putDoubleVector("doubles", {0.25, HUGE_VAL});
    if (chance() % 2 == 0) made.putStringVector("texts", {text(), text()});
    if (depth > 0) made.putPersistableBundle("inner", bundle(depth - 1));
    return made;
}

/* Each type under a name of its own, and what is under a name of another type is not found. */
static void everyType() {
    PersistableBundle all, inner, found;
    inner.putString("a", "b");
    all.putBoolean("b", true);
    all.putInt("i", 7);
    all.putLong("l", 8);
    all.putDouble("d", 0.5);
    all.putString("s", "text");
    all.putBooleanVector("bs", {true, false});
    all.putIntVector("is", {1, 2, 3});
    all.putLongVector("ls", {4});
    all.putDoubleVector("ds", {0.25});
    all.putStringVector("ss", {"x", "", "yz"});
    all.putPersistableBundle("p", inner);
    CHECK(all.size() == 11);
    bool flag = false;
    int32_t number = 0;
    int64_t big = 0;
    double half = 0;
    std::string word;
    CHECK(all.getBoolean("b", &flag) && flag && !all.getBoolean("i", &flag));
    CHECK(all.getInt("i", &number) && number == 7 && !all.getInt("l", &number) && !all.getInt("none", &number));
    CHECK(all.getLong("l", &big) && big == 8 && all.getDouble("d", &half) && half == 0.5);
    CHECK(all.getString("s", &word) && word == "text" && !all.getString("ss", &word));
    std::vector<bool> flags;
    std::vector<int32_t> numbers;
    std::vector<int64_t> bigs;
    std::vector<double> halves;
    std::vector<std::string> words;
    CHECK(all.getBooleanVector("bs", &flags) && flags == std::vector<bool>({true, false}));
    CHECK(all.getIntVector("is", &numbers) && numbers == std::vector<int32_t>({1, 2, 3}));
    CHECK(all.getLongVector("ls", &bigs) && bigs == std::vector<int64_t>({4}));
    CHECK(all.getDoubleVector("ds", &halves) && halves == std::vector<double>({0.25}));
    CHECK(all.getStringVector("ss", &words) && words == std::vector<std::string>({"x", "", "yz"}));
    CHECK(all.getPersistableBundle("p", &found) && found.deepEquals(inner) && !found.deepEquals(all));
    CHECK(all.getIntKeys() == std::set<std::string>({"i"}) && found.getIntKeys().empty());
    CHECK(all.getStringVectorKeys() == std::set<std::string>({"ss"}));
    /* A buffer is filled as far as it reaches. */
    int32_t two[2] = {0, 0};
    CHECK(APersistableBundle_getIntVector(all.get(), "is", two, sizeof two) == 3 * sizeof(int32_t) && two[1] == 2);
    CHECK(APersistableBundle_getIntVector(all.get(), "ls", two, sizeof two) == APERSISTABLEBUNDLE_KEY_NOT_FOUND);
    CHECK(APersistableBundle_getIntKeys(all.get(), nullptr, 0, nullptr, nullptr) == APERSISTABLEBUNDLE_ALLOCATOR_FAILED);
    /* One name has one value. */
    all.putString("i", "seven");
    CHECK(!all.getInt("i", &number) && all.size() == 11);
    PersistableBundle copy = all;
    CHECK(copy.deepEquals(all) && copy != all && copy.erase("i") == 1 && copy.erase("i") == 0);
    CHECK(copy.size() == 10 && all.size() == 11 && !copy.deepEquals(all));
}

int main() {
    everyType();
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
        std::optional<PersistableBundle> given, returned;
        if (kind != 0) given = bundle(2);
        CHECK(service->echoBundle(given, &returned).isOk());
        CHECK(given.has_value() == returned.has_value() && (!given || given->deepEquals(*returned)));
        Extra stable;
        CHECK(service->echoStable(added, &stable).isOk());
        same(added, stable);
    }
    puts("all is well");
}
