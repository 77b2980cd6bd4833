/* The class of bundles that generated code uses. */
#pragma once

#include <android/persistable_bundle.h>
#include <stdlib.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace aidl::android::os {

/* Owns a bundle. Two are equal if they own the same one, so that classes that hold them can be ordered: see deepEquals. */
class PersistableBundle {
public:
    PersistableBundle() noexcept : mBundle(APersistableBundle_new()) {}
    /* Takes it. */
    PersistableBundle(APersistableBundle* bundle) noexcept : mBundle(bundle) {}
    PersistableBundle(PersistableBundle&& other) noexcept : mBundle(other.release()) {}
    PersistableBundle(const PersistableBundle& other) : mBundle(APersistableBundle_dup(other.get())) {}
    PersistableBundle& operator=(const PersistableBundle& other) {
        if (this != &other) reset(APersistableBundle_dup(other.get()));
        return *this;
    }
    PersistableBundle& operator=(PersistableBundle&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    ~PersistableBundle() { reset(); }

    APersistableBundle* get() const { return mBundle; }
    void reset(APersistableBundle* bundle = nullptr) noexcept {
        APersistableBundle_delete(mBundle);
        mBundle = bundle;
    }
    [[nodiscard]] APersistableBundle* release() noexcept { return std::exchange(mBundle, nullptr); }

    binder_status_t readFromParcel(const AParcel* parcel) {
        reset();
        return APersistableBundle_readFromParcel(parcel, &mBundle);
    }
    binder_status_t writeToParcel(AParcel* parcel) const { return APersistableBundle_writeToParcel(mBundle, parcel); }

    bool deepEquals(const PersistableBundle& other) const { return APersistableBundle_isEqual(mBundle, other.mBundle); }
    bool operator==(const PersistableBundle& other) const { return mBundle == other.mBundle; }
    bool operator!=(const PersistableBundle& other) const { return mBundle != other.mBundle; }
    bool operator<(const PersistableBundle& other) const { return mBundle < other.mBundle; }
    bool operator<=(const PersistableBundle& other) const { return mBundle <= other.mBundle; }
    bool operator>(const PersistableBundle& other) const { return mBundle > other.mBundle; }
    bool operator>=(const PersistableBundle& other) const { return mBundle >= other.mBundle; }
    std::string toString() const {
        if (mBundle == nullptr) return "<PersistableBundle: null>";
        return "<PersistableBundle: size: " + std::to_string(size()) + " >";
    }

    int32_t size() const { return APersistableBundle_size(mBundle); }
    int32_t erase(const std::string& key) { return APersistableBundle_erase(mBundle, key.c_str()); }

    void putBoolean(const std::string& key, bool val) { APersistableBundle_putBoolean(mBundle, key.c_str(), val); }
    void putInt(const std::string& key, int32_t val) { APersistableBundle_putInt(mBundle, key.c_str(), val); }
    void putLong(const std::string& key, int64_t val) { APersistableBundle_putLong(mBundle, key.c_str(), val); }
    void putDouble(const std::string& key, double val) { APersistableBundle_putDouble(mBundle, key.c_str(), val); }
    void putString(const std::string& key, const std::string& val) {
        APersistableBundle_putString(mBundle, key.c_str(), val.c_str());
    }
    /* As on Android, one without items is not put in. */
    void putBooleanVector(const std::string& key, const std::vector<bool>& vec) {
        std::unique_ptr<bool[]> items(new bool[vec.size()]);
        for (size_t i = 0; i < vec.size(); i++) items[i] = vec[i];
        if (!vec.empty()) APersistableBundle_putBooleanVector(mBundle, key.c_str(), items.get(), length(vec));
    }
    void putIntVector(const std::string& key, const std::vector<int32_t>& vec) {
        if (!vec.empty()) APersistableBundle_putIntVector(mBundle, key.c_str(), vec.data(), length(vec));
    }
    void putLongVector(const std::string& key, const std::vector<int64_t>& vec) {
        if (!vec.empty()) APersistableBundle_putLongVector(mBundle, key.c_str(), vec.data(), length(vec));
    }
    void putDoubleVector(const std::string& key, const std::vector<double>& vec) {
        if (!vec.empty()) APersistableBundle_putDoubleVector(mBundle, key.c_str(), vec.data(), length(vec));
    }
    void putStringVector(const std::string& key, const std::vector<std::string>& vec) {
        std::vector<const char*> items;
        for (const std::string& text : vec) items.push_back(text.c_str());
        if (!vec.empty()) APersistableBundle_putStringVector(mBundle, key.c_str(), items.data(), length(vec));
    }
    void putPersistableBundle(const std::string& key, const PersistableBundle& val) {
        APersistableBundle_putPersistableBundle(mBundle, key.c_str(), val.mBundle);
    }

    /* False if no value of this type has the name; as on Android, none of an array without items. */
    bool getBoolean(const std::string& key, bool* val) const {
        return APersistableBundle_getBoolean(mBundle, key.c_str(), val);
    }
    bool getInt(const std::string& key, int32_t* val) const { return APersistableBundle_getInt(mBundle, key.c_str(), val); }
    bool getLong(const std::string& key, int64_t* val) const {
        return APersistableBundle_getLong(mBundle, key.c_str(), val);
    }
    bool getDouble(const std::string& key, double* val) const {
        return APersistableBundle_getDouble(mBundle, key.c_str(), val);
    }
    bool getString(const std::string& key, std::string* val) const {
        char* text = nullptr;
        const int32_t size = APersistableBundle_getString(mBundle, key.c_str(), &text, &stringAllocator, nullptr);
        if (size < 0) return false;
        val->assign(text, size);
        free(text);
        return true;
    }
    bool getBooleanVector(const std::string& key, std::vector<bool>* vec) const {
        return getItems(&APersistableBundle_getBooleanVector, key, vec);
    }
    bool getIntVector(const std::string& key, std::vector<int32_t>* vec) const {
        return getItems(&APersistableBundle_getIntVector, key, vec);
    }
    bool getLongVector(const std::string& key, std::vector<int64_t>* vec) const {
        return getItems(&APersistableBundle_getLongVector, key, vec);
    }
    bool getDoubleVector(const std::string& key, std::vector<double>* vec) const {
        return getItems(&APersistableBundle_getDoubleVector, key, vec);
    }
    bool getStringVector(const std::string& key, std::vector<std::string>* vec) const {
        return getTexts(
                [&](char** buffer, int32_t size) {
                    return APersistableBundle_getStringVector(mBundle, key.c_str(), buffer, size, &stringAllocator, nullptr);
                },
                vec);
    }
    bool getPersistableBundle(const std::string& key, PersistableBundle* val) const {
        APersistableBundle* bundle = nullptr;
        const bool found = APersistableBundle_getPersistableBundle(mBundle, key.c_str(), &bundle);
        if (found) val->reset(bundle);
        return found;
    }

    std::set<std::string> getBooleanKeys() const { return getKeys(&APersistableBundle_getBooleanKeys); }
    std::set<std::string> getIntKeys() const { return getKeys(&APersistableBundle_getIntKeys); }
    std::set<std::string> getLongKeys() const { return getKeys(&APersistableBundle_getLongKeys); }
    std::set<std::string> getDoubleKeys() const { return getKeys(&APersistableBundle_getDoubleKeys); }
    std::set<std::string> getStringKeys() const { return getKeys(&APersistableBundle_getStringKeys); }
    std::set<std::string> getBooleanVectorKeys() const { return getKeys(&APersistableBundle_getBooleanVectorKeys); }
    std::set<std::string> getIntVectorKeys() const { return getKeys(&APersistableBundle_getIntVectorKeys); }
    std::set<std::string> getLongVectorKeys() const { return getKeys(&APersistableBundle_getLongVectorKeys); }
    std::set<std::string> getDoubleVectorKeys() const { return getKeys(&APersistableBundle_getDoubleVectorKeys); }
    std::set<std::string> getStringVectorKeys() const { return getKeys(&APersistableBundle_getStringVectorKeys); }
    std::set<std::string> getPersistableBundleKeys() const { return getKeys(&APersistableBundle_getPersistableBundleKeys); }

private:
    using Keys = int32_t(const APersistableBundle*, char**, int32_t, APersistableBundle_stringAllocator, void*);

    static char* stringAllocator(int32_t sizeBytes, void*) { return static_cast<char*>(malloc(sizeBytes)); }
    template <typename T>
    static int32_t length(const std::vector<T>& vec) {
        return static_cast<int32_t>(vec.size());
    }

    template <typename T>
    bool getItems(int32_t (*read)(const APersistableBundle*, const char*, T*, int32_t), const std::string& key,
                  std::vector<T>* vec) const {
        const int32_t bytes = read(mBundle, key.c_str(), nullptr, 0);
        if (bytes <= 0) return false;
        const size_t count = bytes / sizeof(T);
        std::unique_ptr<T[]> items(new T[count]);
        read(mBundle, key.c_str(), items.get(), bytes);
        vec->assign(items.get(), items.get() + count);
        return true;
    }
    /* False if there are none. */
    template <typename Read>
    static bool getTexts(Read read, std::vector<std::string>* vec) {
        const int32_t bytes = read(nullptr, 0);
        if (bytes <= 0) return false;
        std::vector<char*> texts(bytes / sizeof(char*), nullptr);
        const int32_t filled = read(texts.data(), bytes);
        vec->clear();
        for (char* text : texts) {
            if (text != nullptr) vec->emplace_back(text);
            free(text);
        }
        return filled >= 0;
    }
    std::set<std::string> getKeys(Keys* read) const {
        std::vector<std::string> keys;
        getTexts([&](char** buffer, int32_t size) { return read(mBundle, buffer, size, &stringAllocator, nullptr); }, &keys);
        return std::set<std::string>(keys.begin(), keys.end());
    }

    APersistableBundle* mBundle = nullptr;
};

}  // namespace aidl::android::os
