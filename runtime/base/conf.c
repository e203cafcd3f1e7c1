// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * conf.c - the option table, its text form and the environment.
 */
#include "base/conf.h"
#include "base/file.h"
#include "base/ban.h"

enum conf_kind {
	CONF_K_size,
	CONF_K_percent,
	CONF_K_count,
	CONF_K_bool,
	/* Words, in the order of words[]. */
	CONF_K_shared,
	CONF_K_log,
	CONF_K_fault,
	CONF_K_engine,
	CONF_K_direct,
	CONF_K_large,
	CONF_K_eof,
};

#define CONF_TEXT_size "size"
#define CONF_TEXT_percent "percent"
#define CONF_TEXT_count "count"
#define CONF_TEXT_bool "bool"
#define CONF_TEXT_shared "kernel|snapshot"
#define CONF_TEXT_log "quiet|warn|info"
#define CONF_TEXT_fault "auto|signal|service|hybrid|off"
#define CONF_TEXT_engine "auto|pread|io_uring|aio"
#define CONF_TEXT_direct "no|yes|auto"
#define CONF_TEXT_large "auto|kernel|demand"
#define CONF_TEXT_eof "bus|zero"

static const char *const words[] = {
	[CONF_K_shared] = CONF_TEXT_shared, [CONF_K_log] = CONF_TEXT_log,
	[CONF_K_fault] = CONF_TEXT_fault,   [CONF_K_engine] = CONF_TEXT_engine,
	[CONF_K_direct] = CONF_TEXT_direct, [CONF_K_large] = CONF_TEXT_large,
	[CONF_K_eof] = CONF_TEXT_eof,
};

struct conf_range {
	size_t offset;
	uint64_t def, min, max;
	enum conf_kind kind;
};

const struct conf_row conf_rows[CONF_NR] = {
#define CONF(name, type, def, min, max, help) { #name, CONF_TEXT_##type, help },
#include "base/conf.def"
#undef CONF
};

static const struct conf_range ranges[CONF_NR] = {
#define CONF(name, type, def, min, max, help) \
	{ offsetof(struct conf, name), (def), (min), (max), CONF_K_##type },
#include "base/conf.def"
#undef CONF
};

static uint64_t load(const struct conf *c, unsigned int id)
{
	const char *at = (const char *)c + ranges[id].offset;

	switch (ranges[id].kind) {
	case CONF_K_size:
		return *(const uint64_t *)(const void *)at;
	case CONF_K_bool:
		return *(const bool *)(const void *)at;
	default:
		return *(const uint32_t *)(const void *)at;
	}
}

static void store(struct conf *c, unsigned int id, uint64_t v)
{
	char *at = (char *)c + ranges[id].offset;

	switch (ranges[id].kind) {
	case CONF_K_size:
		*(uint64_t *)(void *)at = v;
		break;
	case CONF_K_bool:
		*(bool *)(void *)at = v != 0;
		break;
	default:
		*(uint32_t *)(void *)at = (uint32_t)v;
	}
}

void conf_defaults(struct conf *c)
{
	for (unsigned int i = 0; i < CONF_NR; i++)
		store(c, i, ranges[i].def);
}

static int find(const char *name)
{
	for (unsigned int i = 0; i < CONF_NR; i++)
		if (text_eq(conf_rows[i].name, name))
			return (int)i;
	return -ENOENT;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* @a against the first word of @b, whose words end in '|'. */
static bool same_word(const char *a, const char *b)
{
	while (*a && *a != '|' && lower(*a) == lower(*b)) {
		a++;
		b++;
	}
	return !*a && (!*b || *b == '|');
}

/* The word behind @w, or NULL. */
static const char *next_word(const char *w)
{
	while (*w && *w != '|')
		w++;
	return *w ? w + 1 : NULL;
}

static int parse_size(const char *s, uint64_t *v)
{
	unsigned int shift = 0;
	const char *end;

	*v = text_u64(s, &end);
	if (end == s)
		return -EINVAL;
	switch (lower(*end)) {
	case 't':
		shift += 10;
		/* fall through */
	case 'g':
		shift += 10;
		/* fall through */
	case 'm':
		shift += 10;
		/* fall through */
	case 'k':
		shift += 10;
		end++;
	}
	if (*end)
		return -EINVAL;
	if (*v > UINT64_MAX >> shift)
		return -ERANGE;
	*v <<= shift;
	return 0;
}

static int parse_percent(const char *s, uint64_t *v)
{
	const char *end;

	*v = text_u64(s, &end);
	if (end == s)
		return -EINVAL;
	if (*end == '%')
		end++;
	return *end ? -EINVAL : 0;
}

static int parse_count(const char *s, uint64_t *v)
{
	const char *end;

	*v = text_u64(s, &end);
	return end == s || *end ? -EINVAL : 0;
}

static int parse_word(const char *s, const char *w, uint64_t *v)
{
	for (*v = 0; w; w = next_word(w), ++*v)
		if (same_word(s, w))
			return 0;
	return -EINVAL;
}

static int parse_bool(const char *s, uint64_t *v)
{
	int err = parse_word(s, "0|1|no|yes|off|on|false|true", v);

	*v &= 1;
	return err;
}

int conf_set(struct conf *c, const char *name, const char *value)
{
	int id = find(name);
	uint64_t v = 0;
	int err;

	if (id < 0)
		return id;
	switch (ranges[id].kind) {
	case CONF_K_size:
		err = parse_size(value, &v);
		break;
	case CONF_K_percent:
		err = parse_percent(value, &v);
		break;
	case CONF_K_bool:
		err = parse_bool(value, &v);
		break;
	case CONF_K_count:
		err = parse_count(value, &v);
		break;
	default:
		err = parse_word(value, words[ranges[id].kind], &v);
	}
	if (err)
		return err;
	if (v < ranges[id].min || v > ranges[id].max)
		return -ERANGE;
	store(c, (unsigned int)id, v);
	return 0;
}

/* Sizes print as the largest unit that loses nothing. */
static size_t put_size(uint64_t v, char *buf, size_t size)
{
	static const char units[] = "KMGT";
	unsigned int u = 0;

	while (u < 4 && v && !(v & 1023)) {
		v >>= 10;
		u++;
	}
	if (!u)
		return log_fmt(buf, size, "%llu", (unsigned long long)v);
	return log_fmt(buf, size, "%llu%c", (unsigned long long)v,
		       units[u - 1]);
}

/* The @v-th word of @w. */
static size_t put_word(uint64_t v, const char *w, char *buf, size_t size)
{
	size_t n = 0;

	while (v-- && w)
		w = next_word(w);
	for (; w && w[n] && w[n] != '|' && n + 1 < size; n++)
		buf[n] = w[n];
	buf[n] = '\0';
	return n;
}

int conf_get(const struct conf *c, const char *name, char *buf, size_t size)
{
	int id = find(name);
	char text[32];
	uint64_t v;
	size_t n;

	if (size)
		buf[0] = '\0';
	if (id < 0)
		return id;
	v = load(c, (unsigned int)id);
	switch (ranges[id].kind) {
	case CONF_K_size:
		n = put_size(v, text, sizeof(text));
		break;
	case CONF_K_percent:
	case CONF_K_count:
	case CONF_K_bool:
		n = log_fmt(text, sizeof(text), "%u", (unsigned int)v);
		break;
	default:
		n = put_word(v, words[ranges[id].kind], text, sizeof(text));
	}
	if (n >= size)
		return -ENOSPC;
	__builtin_memcpy(buf, text, n + 1);
	return (int)n;
}

const char *conf_strerror(int err)
{
	switch (err) {
	case 0:
		return "no error";
	case -ENOENT:
		return "there is no such option";
	case -ERANGE:
		return "the value is out of range";
	default:
		return "the value is not of the option's kind";
	}
}

/* Cut the next item of @list into @name and @value; false when too long. */
static bool cut_item(const char *s, const char *end, char *name, char *value,
		     size_t size)
{
	const char *eq = s;
	size_t n;

	while (eq < end && *eq != '=')
		eq++;
	n = (size_t)(eq - s);
	if (n >= size)
		return false;
	__builtin_memcpy(name, s, n);
	name[n] = '\0';
	if (eq == end) {
		/* A bare name is name=1: only a bool takes it to mean yes. */
		__builtin_memcpy(value, "yes", 4);
		return true;
	}
	n = (size_t)(end - eq - 1);
	if (n >= size)
		return false;
	__builtin_memcpy(value, eq + 1, n);
	value[n] = '\0';
	return true;
}

int conf_parse_list(struct conf *c, const char *list,
		    void (*err)(const char *name, const char *value, int err))
{
	char name[64], value[64];
	int first = 0;

	while (list && *list) {
		const char *end = list;
		int ret = -EINVAL;

		while (*end && *end != ',')
			end++;
		name[0] = value[0] = '\0';
		if (end != list) {
			if (cut_item(list, end, name, value, sizeof(name)))
				ret = conf_set(c, name, value);
			if (ret && err)
				err(name, value, ret);
			if (ret && !first)
				first = ret;
		}
		list = *end ? end + 1 : end;
	}
	return first;
}

/* "MEM" to "mem"; false when it is no option's name in capitals. */
static bool env_name(const char *s, const char *eq, char *name, size_t size)
{
	size_t n = 0;

	for (; s < eq; s++) {
		if (n + 1 >= size || (*s >= 'a' && *s <= 'z'))
			return false;
		name[n++] = lower(*s);
	}
	name[n] = '\0';
	return find(name) >= 0;
}

/* Variables with our prefix that are not options. */
static bool env_is_other(const char *s, const char *eq)
{
	static const char *const others[] = { "PROFILE", "PROFILE_DIR" };

	for (unsigned int i = 0; i < ARRAY_SIZE(others); i++)
		if (text_after(s, others[i]) == eq)
			return true;
	return false;
}

int conf_load_env(struct conf *c, char *const *envp)
{
	char name[64];
	int bad = 0;
	int err;

	for (; envp && *envp; envp++) {
		const char *s = text_after(*envp, "FAULTLINE_");
		const char *eq = s;

		while (eq && *eq && *eq != '=')
			eq++;
		if (!eq || !*eq || env_is_other(s, eq))
			continue;
		err = -ENOENT;
		if (env_name(s, eq, name, sizeof(name)))
			err = conf_set(c, name, eq + 1);
		if (err) {
			fl_log(FL_LOG_WARN, "%s is ignored: %s", *envp,
			       conf_strerror(err));
			bad++;
		}
	}
	return bad;
}
