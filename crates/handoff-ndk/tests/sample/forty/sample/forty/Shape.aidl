package sample.forty;

import sample.forty.Leaf;

union Shape {
    int number = 7;
    Leaf leaf;
    String[] texts;
}
