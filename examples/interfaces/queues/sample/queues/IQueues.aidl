package sample.queues;

import android.hardware.common.fmq.MQDescriptor;
import android.hardware.common.fmq.SynchronizedReadWrite;
import android.hardware.common.fmq.UnsynchronizedWrite;
import sample.queues.Sample;

interface IQueues {
    /** Reads so many numbers, waiting for them, and gives their sum. */
    int sum(in MQDescriptor<int, SynchronizedReadWrite> numbers, int count);
    /** Writes so many numbers, waiting for room. */
    oneway void count(in MQDescriptor<int, SynchronizedReadWrite> numbers, int count);
    /** A queue with three samples in it. */
    MQDescriptor<Sample, UnsynchronizedWrite> samples();
}
