// Serves what examples/tests/it/everything serves in Rust, and bindings/python/tests/everything.py in Python.
#include <aidl/sample/everything/BnEverything.h>
#include <android/binder_manager.h>
#include <android/binder_process.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ::aidl::sample::everything;
using ::ndk::ScopedAStatus;
using ::ndk::ScopedFileDescriptor;
using ::ndk::SpAIBinder;
using Texts = std::vector<std::string>;
using Points = std::optional<std::vector<std::optional<Point>>>;

namespace {

ScopedAStatus ok() { return ScopedAStatus::ok(); }

/* Records hold others, and are not copied by C++ itself: what a parcel holds of one makes another. */
void copy(const Record& from, Record* to) {
    ndk::ScopedAParcel parcel(AParcel_create());
    from.writeToParcel(parcel.get());
    AParcel_setDataPosition(parcel.get(), 0);
    to->readFromParcel(parcel.get());
}

class Everything : public BnEverything {
    ScopedAStatus echo(const Record& record, Record* back) override { return copy(record, back), ok(); }
    ScopedAStatus add(int32_t a, int32_t b, int32_t* sum) override { return *sum = a + b, ok(); }
    ScopedAStatus maybe(const std::optional<std::string>& text, bool wanted, std::optional<std::string>* back) override {
        if (wanted) *back = text;
        return ok();
    }
    ScopedAStatus reverse(const Texts& texts, Texts* back) override { return back->assign(texts.rbegin(), texts.rend()), ok(); }
    ScopedAStatus fill(std::vector<int32_t>* numbers, int32_t with) override {
        return numbers->assign(numbers->size(), with), ok();
    }
    ScopedAStatus grow(std::vector<uint8_t>* bytes, Point* point) override {
        bytes->push_back(0xff);
        point->y = static_cast<int32_t>(bytes->size());
        return ok();
    }
    ScopedAStatus countAndSplit(const Texts& words, Texts* first, std::optional<Record>* record, int32_t* count) override {
        first->assign(words.begin(), words.begin() + (words.empty() ? 0 : 1));
        if (*record) record->reset(); else record->emplace();
        return *count = static_cast<int32_t>(words.size()), ok();
    }
    ScopedAStatus next(Color color, Color* back) override {
        return *back = static_cast<Color>(static_cast<int8_t>(color) + 1), ok();
    }
    ScopedAStatus all(std::vector<Color>* colors) override { return *colors = {Color::RED, Color::GREEN, Color::BLUE}, ok(); }
    ScopedAStatus points(const Points& points, Points* back) override { return *back = points, ok(); }
    ScopedAStatus shape(const Shape& shape, Shape* back) override { return *back = shape, ok(); }
    ScopedAStatus itself(SpAIBinder* object) override {
        return *object = ndk::SharedRefBase::make<Everything>()->asBinder(), ok();
    }
    ScopedAStatus nobody(const SpAIBinder& object, SpAIBinder* back) override { return *back = object, ok(); }
    ScopedAStatus call(const std::shared_ptr<ICallback>& callback, int32_t what) override {
        return callback->happened(what, "as asked");
    }
    ScopedAStatus open(const std::string& text, ScopedFileDescriptor* file) override {
        FILE* made = tmpfile();
        fwrite(text.data(), 1, text.size(), made);
        rewind(made);
        file->set(dup(fileno(made)));
        return fclose(made), ok();
    }
    ScopedAStatus size(const ScopedFileDescriptor& file, int64_t* size) override {
        struct stat found = {};
        if (fstat(file.get(), &found) != 0) return ScopedAStatus::fromExceptionCode(EX_ILLEGAL_STATE);
        return *size = found.st_size, ok();
    }
    ScopedAStatus turn(const std::array<int32_t, 3>& numbers, std::array<int32_t, 3>* back) override {
        return *back = {numbers[2], numbers[1], numbers[0]}, ok();
    }
    ScopedAStatus fail(int32_t code) override { return ScopedAStatus::fromServiceSpecificErrorWithMessage(code, "as asked"); }
    ScopedAStatus type(int32_t self, int32_t crate, int32_t* back) override { return *back = self - crate, ok(); }
    // What C++ cannot say.
    ScopedAStatus styled() override { return ScopedAStatus::fromExceptionCode(EX_UNSUPPORTED_OPERATION); }
    ScopedAStatus sum() override { return ScopedAStatus::fromExceptionCode(EX_UNSUPPORTED_OPERATION); }
};

}  // namespace

int main() {
    ABinderProcess_startThreadPool();
    if (AServiceManager_addService(ndk::SharedRefBase::make<Everything>()->asBinder().get(), "cpp.everything") != EX_NONE) return 1;
    printf("ready\n");
    fflush(stdout);
    ABinderProcess_joinThreadPool();
}
