package sample.forty;

oneway interface IDone {
    void done();
}
