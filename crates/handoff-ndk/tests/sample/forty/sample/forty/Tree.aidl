package sample.forty;

import sample.forty.Leaf;

parcelable Tree {
    Leaf root;
    Leaf[] leaves;
    @nullable String[] names;
    byte[] bytes;
    boolean[] flags;
    char[] letters;
    float half = 0.5f;
    double third = 0.25;
    char letter = 'z';
    byte small = -1;
    boolean flag = true;
    long big = 5000000000;
    String text = "tree";
}
