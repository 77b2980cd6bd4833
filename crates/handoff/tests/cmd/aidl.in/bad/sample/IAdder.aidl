package sample;

interface IAdder {
    oneway void reset();
    int add(int a, Strng b);
}
