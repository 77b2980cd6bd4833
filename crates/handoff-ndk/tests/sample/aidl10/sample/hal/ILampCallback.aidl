package sample.hal;

oneway interface ILampCallback {
    void onChanged(int level, String why);
}
