/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens names below a directory without ever leaving it, and keeps few descriptors open.
 * No other file of the library opens anything by name.
 *
 * Every component of a path is opened by itself, from the descriptor of the one before
 * and without following links. The one link that may be followed is the last component
 * as it was asked for: its text is resolved to a path below the root first, and that
 * path is walked in the same way, so a second link on it ends the walk.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/names.h"
#include "base/num.h"
#include "io/directory.h"

enum {
	MOST_OPEN = 64,  /* files of one cache */
	MOST_LENT = 512, /* of all that borrow from it */
	NAME_MOST = 4096,
	FLAGS_FILE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
	FLAGS_LIST = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
	FLAGS_STEP = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
	FLAGS_LOOK = O_PATH | O_NOFOLLOW | O_CLOEXEC,
};

struct open_file {
	char *below; /* NULL: free */
	int fd;
	uint64_t used;
};

/* The files that were ever opened, by number: open addressing, at most half full. */
struct known {
	uint64_t *slots; /* 0: free */
	size_t room, count;
};

/* What the directories of one root share. One that borrows from another has descriptors
 * of its own files alone, and belongs to one thread. */
struct fsdp_dir_cache {
	unsigned users;
	struct fsdp_dir_cache *lender; /* whose root and path these are, or NULL */
	_Atomic unsigned lent;         /* open files of all that borrow from this one */
	int root;
	char *path; /* of the root, as the user named it */
	uint64_t clock;
	struct known known;
	struct open_file files[MOST_OPEN];
};

static void insert_number(struct known *known, uint64_t number)
{
	size_t at = (size_t)fsdp_mix(number, UINT64_C(0x9e3779b97f4a7c15));
	while (known->slots[at & (known->room - 1)] != 0 &&
		known->slots[at & (known->room - 1)] != number)
		at++;
	known->count += known->slots[at & (known->room - 1)] == 0;
	known->slots[at & (known->room - 1)] = number;
}

/* However often a file is opened, its bytes are given once. The budget is the lender's
 * thread's: one that borrows gives nothing. */
static bool give_bytes(const struct fsdp_dir *dir, uint64_t number, uint64_t size)
{
	struct known *known = &dir->cache->known;
	if (dir->cache->lender != NULL)
		return true;
	if (known->count >= known->room / 2) {
		struct known more = { .room = known->room != 0 ? known->room * 2
							       : MOST_OPEN };
		more.slots = calloc(more.room, sizeof *more.slots);
		if (more.slots == NULL)
			return false;
		for (size_t i = 0; i < known->room; i++)
			if (known->slots[i] != 0)
				insert_number(&more, known->slots[i]);
		free(known->slots);
		*known = more;
	}
	size_t before = known->count;
	insert_number(known, number);
	if (known->count != before)
		fsdp_budget_give(dir->arena->budget, size);
	return true;
}

static bool give_file(const struct fsdp_dir *dir, int fd)
{
	struct stat status;
	return fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	       give_bytes(dir, (uint64_t)status.st_ino, (uint64_t)status.st_size);
}

/* ---- descriptors ---- */

static void close_file(struct fsdp_dir_cache *cache, struct open_file *file)
{
	if (file->below == NULL)
		return;
	close(file->fd);
	if (cache->lender != NULL)
		atomic_fetch_sub(&cache->lender->lent, 1);
	free(file->below);
	*file = (struct open_file){ 0 };
}

static struct fsdp_dir_cache *cache_new(const char *path, int fd)
{
	struct fsdp_dir_cache *cache = calloc(1, sizeof *cache);
	if (cache == NULL)
		return NULL;
	cache->users = 1;
	cache->path = strdup(path);
	cache->root = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (cache->path != NULL && (fd < 0 || cache->root >= 0))
		return cache;
	if (cache->root >= 0)
		close(cache->root);
	free(cache->path);
	free(cache);
	return NULL;
}

static struct open_file *find_file(struct fsdp_dir_cache *cache, const char *below)
{
	for (size_t i = 0; i < MOST_OPEN; i++)
		if (cache->files[i].below != NULL &&
			strcmp(cache->files[i].below, below) == 0)
			return &cache->files[i];
	return NULL;
}

/* Other parts of the program hold descriptors too: gives up ours before failing. */
static bool make_room(struct fsdp_dir_cache *cache)
{
	struct open_file *oldest = NULL;
	for (size_t i = 0; i < MOST_OPEN; i++)
		if (cache->files[i].below != NULL &&
			(oldest == NULL || cache->files[i].used < oldest->used))
			oldest = &cache->files[i];
	if (oldest == NULL)
		return false;
	close_file(cache, oldest);
	return true;
}

/* ---- paths below the root ---- */

/* Location of a name: its open directory, and the path of that. */
struct spot {
	int fd;
	bool owned;
	char below[PATH_MAX];
	char last[NAME_MAX + 1];
};

static void leave_spot(struct spot *spot)
{
	if (spot->owned)
		close(spot->fd);
	spot->owned = false;
}

static bool append(char *path, const char *name, size_t size)
{
	size_t have = strlen(path);
	if (size > NAME_MAX || have + 1 + size >= PATH_MAX)
		return false;
	if (have != 0)
		path[have++] = '/';
	memcpy(path + have, name, size);
	path[have + size] = '\0';
	return true;
}

/* Walks all but the last component of `path`, which holds no "." and no "..". */
static bool walk(int from, const char *below, const char *path, struct spot *ret_spot)
{
	struct spot spot = { .fd = from };
	size_t length = strlen(below);
	if (length >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(spot.below, below, length + 1);
	for (;;) {
		size_t size = strcspn(path, "/");
		bool fits = size <= NAME_MAX;
		if (fits) {
			memcpy(spot.last, path, size);
			spot.last[size] = '\0';
		}
		if (fits && path[size] == '\0') {
			*ret_spot = spot;
			return true;
		}
		fits = fits && append(spot.below, path, size);
		int next = fits ? openat(spot.fd, spot.last, FLAGS_STEP) : -1;
		int number = fits ? errno : ENAMETOOLONG;
		leave_spot(&spot);
		if (next < 0) {
			errno = number;
			return false;
		}
		spot.fd = next;
		spot.owned = true;
		path += size + 1;
	}
}

/* `text` relative to the directory `below`; false if it leaves the root. */
static bool join(const char *below, const char *text, char *ret_path)
{
	char path[PATH_MAX];
	memcpy(path, below, strlen(below) + 1);
	while (*text != '\0') {
		size_t size = strcspn(text, "/");
		if (size == 2 && memcmp(text, "..", 2) == 0) {
			if (path[0] == '\0')
				return false;
			char *slash = strrchr(path, '/');
			*(slash != NULL ? slash : path) = '\0';
		} else if (size != 0 && !(size == 1 && text[0] == '.') &&
			   !append(path, text, size)) {
			return false;
		}
		text += size + (text[size] == '/');
	}
	memcpy(ret_path, path, strlen(path) + 1);
	return path[0] != '\0';
}

/* An absolute link is inside if its text says so; nothing is opened to find out. */
static bool strip_root(const struct fsdp_dir_cache *cache, const char **text)
{
	char *real = realpath(cache->path, NULL);
	size_t length = real != NULL ? strlen(real) : 0;
	bool inside =
		length > 1 && strncmp(*text, real, length) == 0 && (*text)[length] == '/';
	free(real);
	if (inside)
		*text += length + 1;
	return inside;
}

/* "../../blobs/<hex>" with as many "../" as lead there. Gives the part after them. */
static const char *find_blob(const char *text, unsigned *ret_up)
{
	unsigned up = 0;
	for (; strncmp(text, "../", 3) == 0; text += 3)
		up++;
	if (up < 2 || strncmp(text, "blobs/", 6) != 0)
		return NULL;
	size_t digits = strspn(text + 6, "0123456789abcdefABCDEF");
	if ((digits != 40 && digits != 64) || text[6 + digits] != '\0')
		return NULL;
	*ret_up = up;
	return text + 6;
}

static int step(int from, const char *name, int flags)
{
	int next = openat(from, name, flags);
	close(from);
	return next;
}

/*
 * Opens what the link at this spot leads to; -1 if that is not to be followed. The path
 * below the root goes to ret_below, "" for a blob.
 */
static int follow(const struct fsdp_dir_cache *cache, const struct spot *spot, int flags,
	char *ret_below)
{
	char room[PATH_MAX];
	ssize_t size = readlinkat(spot->fd, spot->last, room, sizeof room);
	if (size <= 0 || (size_t)size >= sizeof room)
		return -1;
	room[size] = '\0';
	const char *text = room, *from = spot->below;
	unsigned up;
	const char *hex = find_blob(text, &up);
	ret_below[0] = '\0';
	if (hex != NULL) {
		/* The link of a download cache, the only one that leaves the root. */
		int blob_fd = openat(spot->fd, "..", FLAGS_STEP);
		for (unsigned i = 1; i < up && blob_fd >= 0; i++)
			blob_fd = step(blob_fd, "..", FLAGS_STEP);
		if (blob_fd >= 0)
			blob_fd = step(blob_fd, "blobs", FLAGS_STEP);
		if (blob_fd < 0) {
			errno = ELOOP;
			return -1;
		}
		blob_fd = step(blob_fd, hex, flags);
		struct stat status;
		if (blob_fd >= 0 &&
			(fstat(blob_fd, &status) != 0 || !S_ISREG(status.st_mode))) {
			close(blob_fd);
			errno = ELOOP;
			return -1;
		}
		return blob_fd;
	}
	bool inside = text[0] != '/' || strip_root(cache, &text);
	if (text[0] == '/')
		from = "";
	if (!inside || !join(from, text, ret_below)) {
		errno = ELOOP;
		return -1;
	}
	struct spot target;
	if (!walk(cache->root, "", ret_below, &target))
		return -1;
	int fd = openat(target.fd, target.last, flags);
	leave_spot(&target);
	return fd;
}

bool fsdp_dir_blob(const struct fsdp_dir *dir, struct fsdp_span name,
	char ret_hex[FSDP_BLOB_HEX + 1])
{
	char room[PATH_MAX];
	unsigned up;
	const struct fsdp_entry *entry =
		dir->remote != NULL ? fsdp_dir_find(dir, name) : NULL;
	if (entry != NULL && entry->kind == FSDP_ENTRY_FILE) {
		const struct fsdp_remote_file *file =
			fsdp_remote_file(dir->remote, entry->file);
		for (size_t i = 0; i < sizeof file->sha256; i++)
			snprintf(ret_hex + 2 * i, 3, "%02x", file->sha256[i]);
		return file->has_sha256;
	}
	if (!fsdp_dir_link(dir, name, room, sizeof room))
		return false;
	const char *hex = find_blob(room, &up);
	if (hex == NULL || strlen(hex) != FSDP_BLOB_HEX)
		return false;
	memcpy(ret_hex, hex, FSDP_BLOB_HEX + 1);
	return true;
}

bool fsdp_dir_link(
	const struct fsdp_dir *dir, struct fsdp_span name, char *ret_text, size_t room)
{
	ssize_t size = dir->fd >= 0 ? readlinkat(dir->fd, (const char *)name.data,
					      ret_text, room)
				    : -1;
	if (size <= 0 || (size_t)size >= room)
		return false;
	ret_text[size] = '\0';
	return true;
}

/* ---- listing ---- */

struct list {
	struct fsdp_budget *budget;
	struct fsdp_entry *entries;
	size_t count, room;
};

static void look_behind(const struct fsdp_dir *dir, const char *name,
	struct fsdp_entry *entry, struct stat *status)
{
	struct spot spot;
	char below[PATH_MAX];
	int fd = -1;
	entry->kind = FSDP_ENTRY_LINK_OUTSIDE;
	if (walk(dir->fd, dir->below, name, &spot))
		fd = follow(dir->cache, &spot, FLAGS_LOOK, below);
	if (fd < 0 && errno == ENOENT)
		entry->kind = FSDP_ENTRY_LINK_BROKEN;
	if (fd < 0)
		return;
	if (fstat(fd, status) == 0) {
		if (S_ISREG(status->st_mode))
			entry->kind = FSDP_ENTRY_FILE;
		else if (S_ISDIR(status->st_mode))
			entry->kind = FSDP_ENTRY_LINK_DIRECTORY;
		else if (!S_ISLNK(status->st_mode))
			entry->kind = FSDP_ENTRY_SPECIAL;
	}
	close(fd);
}

static struct fsdp_entry *push(struct list *list)
{
	if (list->count == list->room) {
		size_t room = list->room == 0 ? 64 : list->room * 2;
		size_t more = (room - list->room) * sizeof *list->entries;
		if (!fsdp_budget_spend(list->budget, more))
			return NULL;
		struct fsdp_entry *entries =
			reallocarray(list->entries, room, sizeof *entries);
		if (entries == NULL) {
			fsdp_budget_return(list->budget, more);
			return NULL;
		}
		list->entries = entries;
		list->room = room;
	}
	list->entries[list->count] = (struct fsdp_entry){ 0 };
	return &list->entries[list->count++];
}

/* What the directory says about an entry. False: that has to be looked at. */
static bool has_type(
	const struct fsdp_dir *dir, const struct dirent *found, struct fsdp_entry *entry)
{
	if (!dir->names_only || (found->d_type != DT_REG && found->d_type != DT_DIR))
		return false;
	entry->kind = found->d_type == DT_REG ? FSDP_ENTRY_FILE : FSDP_ENTRY_DIRECTORY;
	entry->size = found->d_type == DT_REG ? FSDP_UNKNOWN : 0;
	return true;
}

static bool add_entry(const struct fsdp_dir *dir, const struct dirent *found,
	uint64_t most, struct list *list, struct fsdp_error **ret_error)
{
	const char *name = found->d_name;
	struct fsdp_entry typed = { 0 };
	struct stat status;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	bool is_known = has_type(dir, found, &typed);
	if (!is_known && fstatat(dir->fd, name, &status,
				 AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
		return errno == ENOENT || fsdp_fail_errno(ret_error, errno, FSDP_UNKNOWN,
						  "cannot look at an entry");
	if (list->count >= most)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_FILES, most);
	struct fsdp_entry *entry = push(list);
	if (entry == NULL)
		return fsdp_arena_fail(dir->arena, ret_error);
	*entry = typed;
	entry->name = fsdp_arena_copy(dir->arena, fsdp_span_text(name));
	if (entry->name.data == NULL)
		return fsdp_arena_fail(dir->arena, ret_error);
	if (!is_known) {
		if (S_ISREG(status.st_mode))
			entry->kind = FSDP_ENTRY_FILE;
		else if (S_ISDIR(status.st_mode))
			entry->kind = FSDP_ENTRY_DIRECTORY;
		else if (S_ISLNK(status.st_mode))
			look_behind(dir, name, entry, &status);
		else
			entry->kind = FSDP_ENTRY_SPECIAL;
		if (entry->kind == FSDP_ENTRY_FILE)
			entry->size = (uint64_t)status.st_size;
		entry->mtime_s = status.st_mtim.tv_sec;
		entry->mtime_ns = (uint32_t)status.st_mtim.tv_nsec;
	}
	return true;
}

static bool read_names(const struct fsdp_dir *dir, DIR *stream, uint64_t most,
	struct list *list, struct fsdp_error **ret_error)
{
	for (;;) {
		errno = 0;
		const struct dirent *found = readdir(stream);
		if (found == NULL)
			return errno == 0 || fsdp_fail_errno(ret_error, errno,
						     FSDP_UNKNOWN, "cannot list");
		if (!add_entry(dir, found, most, list, ret_error))
			return false;
	}
}

int fsdp_entry_compare(const void *left, const void *right)
{
	const struct fsdp_entry *a = left, *b = right;
	return fsdp_span_compare(a->name, b->name);
}

static bool keep_sorted(
	struct fsdp_dir *dir, const struct list *list, struct fsdp_error **ret_error)
{
	struct fsdp_entry *entries = FSDP_TAKE(dir->arena, entries, list->count);
	if (entries == NULL)
		return fsdp_arena_fail(dir->arena, ret_error);
	dir->entries = entries;
	dir->count = list->count;
	if (dir->count == 0)
		return true;
	memcpy(entries, list->entries, dir->count * sizeof *entries);
	qsort(entries, dir->count, sizeof *entries, fsdp_entry_compare);
	return true;
}

static bool list_entries(struct fsdp_dir *dir, const struct fsdp_limits *limits,
	struct fsdp_error **ret_error)
{
	if (dir->remote != NULL) {
		/* The list of a remote directory is kept there. */
		uint64_t most = fsdp_limit(limits, FSDP_LIMIT_FILES);
		if (!fsdp_remote_list(dir->remote, dir->path, !dir->names_only,
			    &dir->entries, &dir->count, ret_error))
			return false;
		return dir->count <= most ||
		       fsdp_fail_limit(ret_error, FSDP_LIMIT_FILES, most);
	}
	int fd = openat(dir->fd, ".", FLAGS_LIST);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (stream == NULL) {
		int number = errno;
		if (fd >= 0)
			close(fd);
		return fsdp_fail_errno(ret_error, number, FSDP_UNKNOWN, "cannot list");
	}
	struct list list = { .budget = dir->arena->budget };
	bool ok = read_names(dir, stream, fsdp_limit(limits, FSDP_LIMIT_FILES), &list,
			  ret_error) &&
		  keep_sorted(dir, &list, ret_error);
	fsdp_budget_return(list.budget, list.room * sizeof *list.entries);
	free(list.entries);
	closedir(stream);
	return ok;
}

/* ---- opening ---- */

static bool fail_open(struct fsdp_error **ret_error, int number)
{
	if (number == ENOENT)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_SYSTEM, "FI9003",
			FSDP_UNKNOWN, "no such file");
	return fsdp_fail_errno(ret_error, number, FSDP_UNKNOWN, "cannot open");
}

static bool fail_kind(struct fsdp_error **ret_error, const char *what)
{
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3065", FSDP_UNKNOWN,
		"%s; it was not opened", what);
}

/* "directory/name" in `room` bytes of the size from path_size. */
static size_t path_size(const char *folder, const char *name)
{
	return strlen(folder) + 1 + strlen(name) + 1;
}

static char *write_path(char *room, const char *folder, const char *name)
{
	size_t size = strlen(folder);
	memcpy(room, folder, size);
	if (size != 0 && folder[size - 1] != '/')
		room[size++] = '/';
	memcpy(room + size, name, strlen(name) + 1);
	return room;
}

static const char *copy_path(
	struct fsdp_arena *arena, const char *folder, const char *name)
{
	char *room = fsdp_arena_take(arena, path_size(folder, name), 1);
	return room != NULL ? write_path(room, folder, name) : NULL;
}

/* Takes the descriptor and one use of the cache, also when it fails. */
static bool begin_dir(struct fsdp_dir *dir, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error)
{
	bool ok = dir->path != NULL && dir->below != NULL;
	if (!ok)
		fsdp_arena_fail(dir->arena, ret_error);
	if (!ok || !list_entries(dir, limits, ret_error)) {
		fsdp_error_add_path(ret_error, dir->path != NULL ? dir->path : "");
		fsdp_dir_close(dir);
		return false;
	}
	*ret_dir = *dir;
	return true;
}

static bool open_dir(struct fsdp_remote *remote, const char *path, bool names_only,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error)
{
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	if (!fsdp_remote_look(remote, path, &kind, &file, ret_error))
		return fsdp_error_add_path(ret_error, path);
	bool is_remote = kind != FSDP_REMOTE_LOCAL;
	int fd = is_remote ? -1 : open(path, FLAGS_LIST);
	if (is_remote ? kind != FSDP_REMOTE_FOLDER : fd < 0) {
		fail_open(ret_error, is_remote ? ENOENT : errno);
		return fsdp_error_add_path(ret_error, path);
	}
	struct fsdp_dir_cache *cache = cache_new(path, fd);
	if (cache == NULL) {
		fail_open(ret_error, errno);
		if (fd >= 0)
			close(fd);
		return false;
	}
	fsdp_arena_hold(arena);
	struct fsdp_dir dir = {
		.arena = arena,
		.fd = fd,
		.remote = is_remote ? remote : NULL,
		.path = copy_path(arena, "", path),
		.below = "",
		.cache = cache,
		.names_only = names_only,
	};
	bool good = begin_dir(&dir, limits, ret_dir, ret_error);
	fsdp_arena_resume(arena);
	return good;
}

bool fsdp_dir_open(struct fsdp_remote *remote, const char *path, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_dir *ret_dir,
	struct fsdp_error **ret_error)
{
	return open_dir(remote, path, false, arena, limits, ret_dir, ret_error);
}

bool fsdp_dir_open_names(struct fsdp_remote *remote, const char *path,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error)
{
	return open_dir(remote, path, true, arena, limits, ret_dir, ret_error);
}

/* The directory or a link to one; its path from the root goes to ret_below. */
static int open_folder(
	const struct fsdp_dir *dir, const struct fsdp_entry *entry, char *ret_below)
{
	const char *name = (const char *)entry->name.data;
	struct spot spot;
	if (!walk(dir->fd, dir->below, name, &spot))
		return -1;
	if (entry->kind == FSDP_ENTRY_LINK_DIRECTORY)
		return follow(dir->cache, &spot, FLAGS_LIST | O_NOFOLLOW, ret_below);
	if (!join(dir->below, name, ret_below)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return openat(dir->fd, name, FLAGS_LIST | O_NOFOLLOW);
}

bool fsdp_dir_open_child(const struct fsdp_dir *dir, const char *name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error)
{
	const struct fsdp_entry *entry = fsdp_dir_find(dir, fsdp_span_text(name));
	char below[PATH_MAX] = "";
	int fd = -1;
	errno = ENOENT;
	if (entry != NULL && (dir->fd >= 0 || dir->remote != NULL))
		errno = ENOTDIR;
	bool is_remote = dir->remote != NULL && entry != NULL &&
			 entry->kind == FSDP_ENTRY_DIRECTORY &&
			 join(dir->below, name, below);
	if (entry != NULL && dir->fd >= 0 &&
		(entry->kind == FSDP_ENTRY_DIRECTORY ||
			entry->kind == FSDP_ENTRY_LINK_DIRECTORY))
		fd = open_folder(dir, entry, below);
	if (fd < 0 && !is_remote) {
		fail_open(ret_error, errno);
		return fsdp_error_add_path(ret_error, dir->path);
	}
	dir->cache->users++;
	fsdp_arena_hold(arena);
	struct fsdp_dir child = {
		.arena = arena,
		.fd = fd,
		.remote = dir->remote,
		.path = copy_path(arena, dir->path, name),
		.below = copy_path(arena, "", below),
		.cache = dir->cache,
		.names_only = dir->names_only,
	};
	bool good = begin_dir(&child, limits, ret_dir, ret_error);
	fsdp_arena_resume(arena);
	return good;
}

bool fsdp_dir_share(const struct fsdp_dir *dir, struct fsdp_dir *ret_dir,
	struct fsdp_error **ret_error)
{
	struct fsdp_dir_cache *cache = calloc(1, sizeof *cache);
	if (cache == NULL)
		return fsdp_fail_memory(ret_error);
	cache->users = 1;
	cache->lender = dir->cache;
	cache->root = dir->cache->root;
	cache->path = dir->cache->path;
	*ret_dir = *dir;
	ret_dir->cache = cache;
	return true;
}

void fsdp_dir_close(struct fsdp_dir *dir)
{
	bool shared = dir->cache != NULL && dir->cache->lender != NULL;
	if (dir->fd >= 0 && !shared)
		close(dir->fd);
	dir->fd = -1;
	struct fsdp_dir_cache *cache = dir->cache;
	if (cache != NULL && --cache->users == 0) {
		for (size_t i = 0; i < MOST_OPEN; i++)
			close_file(cache, &cache->files[i]);
		if (cache->lender == NULL) {
			if (cache->root >= 0)
				close(cache->root);
			free(cache->path);
		}
		free(cache->known.slots);
		free(cache);
	}
	dir->cache = NULL;
}

size_t fsdp_dir_count(const struct fsdp_dir *dir)
{
	return dir->count;
}

const struct fsdp_entry *fsdp_dir_entry(const struct fsdp_dir *dir, size_t index)
{
	return &dir->entries[index];
}

bool fsdp_dir_position(
	const struct fsdp_dir *dir, struct fsdp_span name, size_t *ret_position)
{
	size_t low = 0, high = dir->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = fsdp_span_compare(name, fsdp_dir_entry(dir, middle)->name);
		if (order == 0) {
			*ret_position = middle;
			return true;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

const struct fsdp_entry *fsdp_dir_find(const struct fsdp_dir *dir, struct fsdp_span name)
{
	size_t position;
	return fsdp_dir_position(dir, name, &position) ? fsdp_dir_entry(dir, position)
						       : NULL;
}

/* -1 with errno, which is ELOOP for a link that is not to be followed. */
static int open_regular(const struct fsdp_dir *dir, const char *name)
{
	struct spot spot;
	char below[PATH_MAX];
	if (!walk(dir->fd, dir->below, name, &spot)) {
		if (errno == ENOTDIR) /* a link on the way, or a file */
			errno = ELOOP;
		return -1;
	}
	int fd = openat(spot.fd, spot.last, FLAGS_FILE);
	int number = errno;
	if (fd < 0 && number == ELOOP) {
		fd = follow(dir->cache, &spot, FLAGS_FILE, below);
		if (errno == EMFILE || errno == ENFILE)
			number = errno;
	}
	leave_spot(&spot);
	errno = number;
	return fd;
}

static bool open_cached(const struct fsdp_dir *dir, const char *name, int *ret_fd,
	struct fsdp_error **ret_error)
{
	struct fsdp_dir_cache *cache = dir->cache;
	char below[PATH_MAX];
	if (!join(dir->below, name, below))
		return fail_open(ret_error, ENAMETOOLONG);
	struct open_file *file = find_file(cache, below);
	if (file == NULL) {
		if (cache->lender != NULL && cache->lender->lent >= MOST_LENT)
			(void)make_room(cache);
		int fd = open_regular(dir, name);
		while (fd < 0 && (errno == EMFILE || errno == ENFILE) && make_room(cache))
			fd = open_regular(dir, name);
		if (fd < 0 && errno == ELOOP)
			return fail_kind(ret_error,
				"it is a link that leads out of the directory, or is reached through one");
		if (fd < 0)
			return fail_open(ret_error, errno);
		/* A free place, or the one that was not used for the longest time. */
		struct open_file *oldest = &cache->files[0];
		for (size_t i = 1; i < MOST_OPEN; i++)
			if (cache->files[i].used < oldest->used)
				oldest = &cache->files[i];
		file = oldest;
		close_file(cache, file);
		file->below = give_file(dir, fd) ? strdup(below) : NULL;
		if (file->below == NULL) {
			close(fd);
			return fsdp_fail_memory(ret_error);
		}
		file->fd = fd;
		if (cache->lender != NULL)
			atomic_fetch_add(&cache->lender->lent, 1);
	}
	file->used = ++cache->clock;
	*ret_fd = file->fd;
	return true;
}

static bool is_unchanged(
	const struct fsdp_entry *entry, int fd, struct fsdp_error **ret_error)
{
	struct stat status;
	if (entry->size == FSDP_UNKNOWN)
		return true;
	if (fstat(fd, &status) == 0 && (uint64_t)status.st_size == entry->size &&
		status.st_mtim.tv_sec == entry->mtime_s &&
		(uint32_t)status.st_mtim.tv_nsec == entry->mtime_ns)
		return true;
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI2004", FSDP_UNKNOWN,
		"the file changed since the directory was listed");
	return fsdp_error_add_hint(ret_error, "run again when no program writes to it");
}

/* False if the list or the name excludes it. */
static bool may_open(const struct fsdp_dir *dir, const struct fsdp_entry *entry,
	struct fsdp_span name, struct fsdp_error **ret_error)
{
	if (dir->fd < 0 && dir->remote == NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"this directory is not on a file system");
	if (entry == NULL && !fsdp_name_is_safe(name))
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3064",
			FSDP_UNKNOWN,
			"not a plain name below the directory; it was not opened");
	if (entry == NULL)
		return memchr(name.data, '/', name.size) != NULL ||
		       fail_open(ret_error, ENOENT);
	if (entry->kind == FSDP_ENTRY_LINK_OUTSIDE)
		return fail_kind(
			ret_error, "it is a link that leads out of the directory");
	if (entry->kind == FSDP_ENTRY_LINK_BROKEN) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_SYSTEM, "FI1001", FSDP_UNKNOWN,
			"dangling link: the file was not downloaded, or was removed");
		return fsdp_error_add_hint(ret_error, "download it again");
	}
	if (entry->kind != FSDP_ENTRY_FILE)
		return fail_kind(ret_error, "it is not a regular file");
	return true;
}

static struct fsdp_source remote_source(struct fsdp_remote_file *file)
{
	return (struct fsdp_source){ .fd = -1, .remote = file, .size = file->size };
}

static bool open_source(const struct fsdp_dir *dir, struct fsdp_span name,
	const char *text, struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	const struct fsdp_entry *entry = fsdp_dir_find(dir, name);
	struct fsdp_source source;
	int fd;
	if (!may_open(dir, entry, name, ret_error))
		return false;
	if (dir->remote != NULL) {
		/* One of the list is known; of another one the directory below is listed.
		 */
		struct fsdp_remote_file *file = NULL;
		enum fsdp_remote_kind kind = FSDP_REMOTE_FILE;
		if (entry != NULL) {
			file = fsdp_remote_file(dir->remote, entry->file);
		} else {
			char *path = malloc(path_size(dir->path, text));
			bool good = path != NULL
					    ? fsdp_remote_look(dir->remote,
						      write_path(path, dir->path, text),
						      &kind, &file, ret_error)
					    : fsdp_fail_memory(ret_error);
			free(path);
			if (!good)
				return false;
		}
		if (kind != FSDP_REMOTE_FILE)
			return fail_open(ret_error, ENOENT);
		*ret_source = remote_source(file);
		return give_bytes(dir, (uint64_t)file->number + 1, file->size) ||
		       fsdp_fail_memory(ret_error);
	}
	if (!open_cached(dir, text, &fd, ret_error) ||
		!fsdp_source_file(fd, &source, ret_error) ||
		(entry != NULL && !is_unchanged(entry, fd, ret_error)))
		return false;
	*ret_source = source;
	return true;
}

bool fsdp_dir_source(const struct fsdp_dir *dir, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	char *text = strndup((const char *)name.data, name.size);
	if (text == NULL)
		return fsdp_fail_memory(ret_error);
	bool ok = open_source(dir, name, text, ret_source, ret_error);
	if (!ok) {
		const char *folder = dir->path != NULL ? dir->path : "";
		char *path = malloc(path_size(folder, text));
		if (path != NULL)
			fsdp_error_add_path(ret_error, write_path(path, folder, text));
		free(path);
	}
	free(text);
	return ok;
}

bool fsdp_file_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	enum fsdp_remote_kind kind;
	struct fsdp_remote_file *file;
	if (!fsdp_remote_look(remote, path, &kind, &file, ret_error))
		return fsdp_error_add_path(ret_error, path);
	if (kind == FSDP_REMOTE_FILE) {
		*ret_source = remote_source(file);
		return true;
	}
	if (kind != FSDP_REMOTE_LOCAL) {
		fail_open(ret_error, kind == FSDP_REMOTE_FOLDER ? EISDIR : ENOENT);
		return fsdp_error_add_path(ret_error, path);
	}
	int fd = open(path, FLAGS_FILE & ~O_NOFOLLOW);
	bool ok = fd >= 0 ? fsdp_source_file(fd, ret_source, ret_error)
			  : fail_open(ret_error, errno);
	if (!ok && fd >= 0)
		close(fd);
	if (!ok)
		fsdp_error_add_path(ret_error, path);
	return ok;
}

bool fsdp_dir_is(struct fsdp_remote *remote, const char *path)
{
	enum fsdp_remote_kind kind = fsdp_remote_kind(remote, path);
	struct stat state;
	if (kind != FSDP_REMOTE_LOCAL)
		return kind == FSDP_REMOTE_FOLDER;
	return stat(path, &state) == 0 && S_ISDIR(state.st_mode);
}

bool fsdp_path_exists(struct fsdp_remote *remote, const char *path)
{
	enum fsdp_remote_kind kind = fsdp_remote_kind(remote, path);
	struct stat state;
	if (kind != FSDP_REMOTE_LOCAL)
		return kind != FSDP_REMOTE_NOTHING;
	return lstat(path, &state) == 0;
}

bool fsdp_dir_is_same(const char *a, const char *b)
{
	struct stat first, second;
	return strcmp(a, b) == 0 ||
	       (stat(a, &first) == 0 && stat(b, &second) == 0 &&
		       first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

static bool is_plain_component(const unsigned char *name, size_t size)
{
	return size != 0 && !(size == 1 && name[0] == '.') &&
	       !(size == 2 && name[0] == '.' && name[1] == '.');
}

bool fsdp_name_is_safe(struct fsdp_span name)
{
	if (name.size == 0 || name.size > NAME_MOST)
		return false;
	unsigned char first = name.data[0] | 0x20;
	if (name.size >= 2 && name.data[1] == ':' && first >= 'a' && first <= 'z')
		return false;
	size_t begin = 0;
	for (size_t i = 0; i < name.size; i++) {
		unsigned char byte = name.data[i];
		if (byte < 0x20 || byte == 0x7f || byte == '\\')
			return false;
		if (byte != '/')
			continue;
		if (!is_plain_component(name.data + begin, i - begin))
			return false;
		begin = i + 1;
	}
	return is_plain_component(name.data + begin, name.size - begin);
}

/*
 * Files by name, from a directory or from memory.
 */

void fsdp_folder_of_dir(struct fsdp_folder *folder, struct fsdp_dir *dir)
{
	*folder = (struct fsdp_folder){ .dir = dir, .count = fsdp_dir_count(dir) };
}

void fsdp_folder_pick(struct fsdp_folder *folder, struct fsdp_dir *dir,
	const uint32_t *picked, size_t count)
{
	*folder = (struct fsdp_folder){ .dir = dir, .picked = picked, .count = count };
}

static const struct fsdp_packed *packed_at(const struct fsdp_folder *folder, size_t index)
{
	return fsdp_vec_at(folder->packed, folder->sorted[index]);
}

/* Relative to the directory: "name" or "sub/name". */
static struct fsdp_span packed_name(const struct fsdp_folder *folder, size_t index)
{
	struct fsdp_span name = packed_at(folder, index)->name;
	return fsdp_span(name.data + folder->strip, name.size - folder->strip);
}

static size_t without_dot_slash(struct fsdp_span name)
{
	return fsdp_span_begins(name, FSDP_SPAN("./")) ? 2 : 0;
}

/* The first directory of all names, if it is the same one. */
static size_t common_directory(const struct fsdp_vec *packed)
{
	if (packed->count == 0)
		return 0;
	struct fsdp_span first =
		((const struct fsdp_packed *)fsdp_vec_at(packed, 0))->name;
	size_t skip = without_dot_slash(first);
	const unsigned char *slash =
		first.size > skip ? memchr(first.data + skip, '/', first.size - skip)
				  : NULL;
	size_t strip = slash != NULL ? (size_t)(slash - first.data) + 1 : skip;
	for (size_t i = 1; i < packed->count; i++) {
		const struct fsdp_packed *member = fsdp_vec_at(packed, i);
		if (strip > skip &&
			!fsdp_span_begins(member->name, fsdp_span(first.data, strip)))
			strip = skip;
		if (without_dot_slash(member->name) != skip)
			return 0;
	}
	return strip;
}

static int compare_packed(const void *a, const void *b, void *context)
{
	const struct fsdp_folder *folder = context;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	const struct fsdp_packed *one = fsdp_vec_at(folder->packed, first);
	const struct fsdp_packed *other = fsdp_vec_at(folder->packed, second);
	int order = fsdp_span_compare(one->name, other->name);
	/* Of two of the same name the earlier stays the earlier. */
	return order != 0 ? order : (first > second) - (first < second);
}

/* Of a member of a subdirectory: bytes of the name of that subdirectory; 0: none. */
static size_t folder_part(const struct fsdp_folder *folder, size_t index)
{
	struct fsdp_span name = packed_name(folder, index);
	const unsigned char *slash =
		name.size != 0 ? memchr(name.data, '/', name.size) : NULL;
	return slash != NULL ? (size_t)(slash - name.data) : 0;
}

static bool list_packed(struct fsdp_folder *folder, struct fsdp_arena *arena,
	struct fsdp_error **ret_error)
{
	struct fsdp_entry *entries = FSDP_TAKE(arena, entries, folder->below + 1);
	if (entries == NULL)
		return fsdp_arena_fail(arena, ret_error);
	folder->count = 0;
	for (size_t i = 0; i < folder->below; i++) {
		size_t part = folder_part(folder, i);
		struct fsdp_entry entry = {
			.name = packed_name(folder, i),
			.kind = part != 0 ? FSDP_ENTRY_DIRECTORY : FSDP_ENTRY_FILE,
			.size = part != 0 ? 0 : packed_at(folder, i)->source.size,
		};
		/* In the same subdirectory as the one before it. */
		if (part != 0 && i != 0 && folder_part(folder, i - 1) == part &&
			memcmp(packed_name(folder, i).data,
				packed_name(folder, i - 1).data, part) == 0)
			continue;
		if (part != 0)
			entry.name =
				fsdp_arena_copy(arena, fsdp_span(entry.name.data, part));
		if (entry.name.data == NULL)
			return fsdp_arena_fail(arena, ret_error);
		entries[folder->count++] = entry;
	}
	/* "a/b" sorts after "a-b", but the directory "a" does not. */
	qsort(entries, folder->count, sizeof *entries, fsdp_entry_compare);
	folder->entries = entries;
	return true;
}

bool fsdp_folder_of_packed(struct fsdp_folder *folder, struct fsdp_vec *packed,
	struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	uint32_t *sorted = FSDP_TAKE(arena, sorted, packed->count + 1);
	*folder = (struct fsdp_folder){
		.packed = packed,
		.strip = common_directory(packed),
		.below = packed->count,
		.sorted = sorted,
	};
	if (sorted == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < packed->count; i++)
		sorted[i] = (uint32_t)i;
	if (packed->count != 0)
		qsort_r(sorted, packed->count, sizeof *sorted, compare_packed, folder);
	return list_packed(folder, arena, ret_error);
}

/* Whether a member sorts before all members of the directory of this name (-1), is one of
 * them (0), or sorts after them. */
static int compare_below(struct fsdp_span member, struct fsdp_span name)
{
	size_t size = member.size < name.size ? member.size : name.size;
	int order = size != 0 ? memcmp(member.data, name.data, size) : 0;
	if (order != 0)
		return order;
	if (member.size <= name.size)
		return -1;
	return (member.data[name.size] > '/') - (member.data[name.size] < '/');
}

/* The first that is not before those in the directory, or (past) the first after them. */
static size_t find_below(
	const struct fsdp_folder *folder, struct fsdp_span name, bool past)
{
	size_t low = 0, high = folder->below;
	FSDP_HALVE(low, high, middle,
		compare_below(packed_name(folder, middle), name) < (past ? 1 : 0));
	return low;
}

void fsdp_folder_expect_children(const struct fsdp_folder *folder, size_t most)
{
	if (folder->dir == NULL || folder->dir->remote == NULL)
		return;
	for (size_t i = 0; i < folder->count && i < most; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		char path[PATH_MAX];
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			path_size(folder->dir->path, (const char *)entry.name.data) <=
				sizeof path)
			fsdp_remote_expect_directory(folder->dir->remote,
				write_path(path, folder->dir->path,
					(const char *)entry.name.data),
				false);
	}
}

bool fsdp_folder_open_child(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_folder *ret_folder,
	struct fsdp_error **ret_error)
{
	*ret_dir = (struct fsdp_dir){ .fd = -1 };
	if (folder->dir == NULL) {
		/* The members of a directory are adjacent in the order of names. */
		size_t begin = find_below(folder, name, false);
		*ret_folder = (struct fsdp_folder){
			.packed = folder->packed,
			.strip = folder->strip + name.size + 1,
			.sorted = folder->sorted + begin,
			.below = find_below(folder, name, true) - begin,
			.copies = folder->copies,
		};
		if (ret_folder->below != 0)
			return list_packed(ret_folder, arena, ret_error);
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such directory in the archive");
	}
	struct fsdp_span text = fsdp_arena_copy(arena, name);
	if (text.data == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (!fsdp_dir_open_child(folder->dir, (const char *)text.data, arena, limits,
		    ret_dir, ret_error))
		return false;
	fsdp_folder_of_dir(ret_folder, ret_dir);
	return true;
}

struct fsdp_entry fsdp_folder_entry(const struct fsdp_folder *folder, size_t index)
{
	if (folder->dir == NULL)
		return folder->entries[index];
	return *fsdp_dir_entry(
		folder->dir, folder->picked != NULL ? folder->picked[index] : index);
}

static struct fsdp_span entry_name(const struct fsdp_folder *folder, size_t index)
{
	return fsdp_folder_entry(folder, index).name;
}

/* Binary search in names that are sorted bytewise. */
static bool find_name(const struct fsdp_folder *folder,
	struct fsdp_span (*name_at)(const struct fsdp_folder *folder, size_t index),
	size_t count, struct fsdp_span name, size_t *ret_index)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = fsdp_span_compare(name_at(folder, middle), name);
		if (order == 0) {
			*ret_index = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool fsdp_folder_index(
	const struct fsdp_folder *folder, struct fsdp_span name, size_t *ret_index)
{
	return find_name(folder, entry_name, folder->count, name, ret_index);
}

bool fsdp_folder_find(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_entry *ret_entry)
{
	size_t index;
	if (!fsdp_folder_index(folder, name, &index))
		return false;
	*ret_entry = fsdp_folder_entry(folder, index);
	return true;
}

bool fsdp_folder_has(
	const struct fsdp_folder *folder, const char *name, enum fsdp_entry_kind kind)
{
	struct fsdp_entry entry;
	return fsdp_folder_find(folder, fsdp_span_text(name), &entry) &&
	       entry.kind == kind;
}

/* A file of the list, if the directory has it too. */
static bool find_copy(const struct fsdp_folder *folder, const struct fsdp_packed *packed,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	struct fsdp_source copy;
	if (!fsdp_dir_source(folder->copies, packed->name, &copy, NULL))
		return true;
	*ret_source = copy;
	if (copy.size == packed->source.size)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"the copy has %llu bytes, and the file in the list %llu",
		FSDP_LLU(copy.size), FSDP_LLU(packed->source.size));
	return fsdp_error_add_hint(ret_error, "download it again");
}

bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error)
{
	size_t index;
	if (folder->dir != NULL &&
		(folder->picked == NULL ||
			find_name(folder, entry_name, folder->count, name, &index)))
		return fsdp_dir_source(folder->dir, name, ret_source, ret_error);
	if (folder->dir != NULL)
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such file among those that were named");
	if (!find_name(folder, packed_name, folder->below, name, &index))
		return fsdp_fail(ret_error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"no such file in the archive");
	*ret_source = packed_at(folder, index)->source;
	return folder->copies == NULL ||
	       find_copy(folder, packed_at(folder, index), ret_source, ret_error);
}

bool fsdp_folder_is_listed(const struct fsdp_folder *folder, struct fsdp_span name)
{
	struct fsdp_source source;
	return folder->copies != NULL &&
	       fsdp_folder_source(folder, name, &source, NULL) &&
	       fsdp_source_is_listed(&source);
}

uint64_t fsdp_folder_offset(const struct fsdp_folder *folder, struct fsdp_span name)
{
	size_t index;
	return folder->dir == NULL &&
			       find_name(folder, packed_name, folder->below, name, &index)
		       ? packed_at(folder, index)->offset
		       : FSDP_UNKNOWN;
}

/*
 * Traverses a directory and its subdirectories, with a stack of open ones.
 */

enum { DEPTH_MOST = 64 };

struct tree_level {
	struct fsdp_arena arena;
	struct fsdp_dir dir;
	struct fsdp_folder folder;
	size_t next; /* first all files, then all directories: up to twice the count */
	size_t path_size; /* of the directory, with its slash */
};

struct fsdp_tree {
	struct fsdp_budget *budget;
	const struct fsdp_limits *limits;
	size_t depth; /* levels that are open */
	struct tree_level levels[DEPTH_MOST];
	char path[PATH_MAX];
};

bool fsdp_tree_new(const struct fsdp_folder *root, struct fsdp_budget *budget,
	const struct fsdp_limits *limits, struct fsdp_tree **ret_tree,
	struct fsdp_error **ret_error)
{
	struct fsdp_tree *tree = calloc(1, sizeof *tree);
	if (tree == NULL)
		return fsdp_fail_memory(ret_error);
	tree->budget = budget;
	tree->limits = limits;
	tree->depth = 1;
	tree->levels[0].folder = *root;
	tree->levels[0].dir.fd = -1;
	fsdp_arena_init(&tree->levels[0].arena, budget);
	*ret_tree = tree;
	return true;
}

/* Enters the directory of this item, whose path is set. */
static bool enter(struct fsdp_tree *tree, const struct fsdp_tree_item *item,
	struct fsdp_error **ret_error)
{
	uint64_t deepest = fsdp_limit(tree->limits, FSDP_LIMIT_BESIDE_DEPTH);
	struct tree_level *level = &tree->levels[tree->depth];
	if (tree->depth > deepest || tree->depth == DEPTH_MOST)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_BESIDE_DEPTH,
			fsdp_min(deepest, DEPTH_MOST - 1));
	*level = (struct tree_level){ .path_size = item->path.size + 1 };
	fsdp_arena_init(&level->arena, tree->budget);
	if (!fsdp_folder_open_child(item->folder, item->entry.name, &level->arena,
		    tree->limits, &level->dir, &level->folder, ret_error)) {
		fsdp_arena_done(&level->arena);
		return false;
	}
	tree->path[item->path.size] = '/';
	tree->depth++;
	return true;
}

static void leave(struct fsdp_tree *tree)
{
	struct tree_level *level = &tree->levels[--tree->depth];
	fsdp_dir_close(&level->dir);
	fsdp_arena_done(&level->arena);
}

bool fsdp_tree_next(struct fsdp_tree *tree, struct fsdp_tree_item *ret_item)
{
	while (tree->depth != 0) {
		struct tree_level *level = &tree->levels[tree->depth - 1];
		size_t count = level->folder.count, index = level->next++;
		if (index >= 2 * count) {
			leave(tree);
			continue;
		}
		struct fsdp_entry entry = fsdp_folder_entry(
			&level->folder, index < count ? index : index - count);
		if (entry.kind !=
			(index < count ? FSDP_ENTRY_FILE : FSDP_ENTRY_DIRECTORY))
			continue;
		*ret_item = (struct fsdp_tree_item){
			.folder = &level->folder,
			.entry = entry,
		};
		size_t size = level->path_size + entry.name.size;
		bool fits = size + 1 < sizeof tree->path;
		if (fits)
			memcpy(tree->path + level->path_size, entry.name.data,
				entry.name.size);
		ret_item->path = fsdp_span(tree->path, fits ? size : level->path_size);
		if (!fits)
			fsdp_fail(&ret_item->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
				"a path below it is too long");
		else if (index >= count)
			(void)enter(tree, ret_item, &ret_item->error);
		return true;
	}
	return false;
}

void fsdp_tree_free(struct fsdp_tree *tree)
{
	if (tree == NULL)
		return;
	while (tree->depth != 0)
		leave(tree);
	free(tree);
}
