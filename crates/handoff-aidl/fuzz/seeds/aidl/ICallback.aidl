package sample.everything;

/** Hears of what happened. */
oneway interface ICallback {
    void happened(int what, String text);
}
