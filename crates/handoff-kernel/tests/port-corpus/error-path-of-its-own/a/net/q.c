extern int key_limit_00;
extern int key_limit_01;
extern int key_limit_02;
extern int key_limit_03;
extern int key_limit_04;
extern int key_limit_05;
extern int key_limit_06;
extern int key_limit_07;
extern int key_limit_08;
extern int key_limit_09;
extern int key_limit_10;
extern int key_limit_11;
extern int key_limit_12;
extern int key_limit_13;
extern int key_limit_14;
extern int key_limit_15;
extern int key_limit_16;
extern int key_limit_17;
extern int key_limit_18;
extern int key_limit_19;
extern int key_limit_20;
extern int key_limit_21;
extern int key_limit_22;
extern int key_limit_23;
extern int key_limit_24;
extern int key_limit_25;
extern int key_limit_26;
extern int key_limit_27;
extern int key_limit_28;
extern int key_limit_29;
extern int key_limit_30;
extern int key_limit_31;
extern int key_limit_32;
extern int key_limit_33;
extern int key_limit_34;
extern int key_limit_35;
extern int key_limit_36;
extern int key_limit_37;
extern int key_limit_38;
extern int key_limit_39;

static int disk_open(struct disk *disk)
{
	struct block *block = block_read(disk, 0);
	int err;

	if (!block)
		return -EIO;
	if (sum_differs(block)) {
		say("DISK: checksum mismatch\n");
		err = -EINVAL;
		goto fail;
	}

	copy_block(&disk->super, block);
	block_put(block);
	if (disk->super.features & ~KNOWN) {
		say("DISK: unsupported features\n");
		err = -EINVAL;
		goto fail;
	}

	err = start_workers(disk);
	if (err) {
		say("DISK: cannot start workers\n");
		goto fail;
	}
	return 0;

fail:
	free_disk(disk);
	return err;
}
