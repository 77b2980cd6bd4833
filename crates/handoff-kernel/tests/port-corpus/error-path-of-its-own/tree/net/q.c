static int disk_open(struct disk *disk)
{
	struct block *block = block_read(disk, 0);
	int err;

	if (!block)
		return -EIO;
	if (sum_differs(block)) {
		say("disk: checksum mismatch\n");
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
