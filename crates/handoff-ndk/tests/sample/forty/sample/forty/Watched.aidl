package sample.forty;

parcelable Watched {
    interface IWatcher {
        interface ICount {
            int next(int number);
        }
        ICount counted(ICount count);
    }
    @nullable IWatcher watcher;
}
