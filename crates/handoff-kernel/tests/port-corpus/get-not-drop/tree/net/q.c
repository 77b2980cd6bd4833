static void key_get(struct key *key)
{
	if (!key->owner)
		return;

	switch (key->kind) {
	case KEY_FILE:
		file_hold(key->file);
		break;
	case KEY_GROUP:
		atomic_inc(&key->group->count);
		break;
	}
}

static void key_drop(struct key *key)
{
	if (!key->owner) {
		warn_once(key);
		return;
	}

	switch (key->kind) {
	case KEY_FILE:
		file_put(key->file);
		break;
	case KEY_GROUP:
		group_put(key->group);
		break;
	}
}

static int key_compare(struct key *a, struct key *b)
{
	return a->owner == b->owner && a->kind == b->kind;
}
