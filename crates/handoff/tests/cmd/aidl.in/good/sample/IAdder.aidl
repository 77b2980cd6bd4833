package sample;

/** Adds. */
interface IAdder {
    const int MOST = 1 << 4;
    int add(int a, int b);
    oneway void reset();
}
