package sample;

/** Adds. */
interface IAdder {
    int add(int a, int b);
    oneway void reset();
}
