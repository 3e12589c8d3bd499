/* Lists of addresses as operators write them, and who is in them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/addresses.h"

#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

static struct address_list list;
static struct error e;

static const struct {
    const char *text, *address;
    bool is_in;
} members[] = {
    { "loopback", "127.0.0.1", true },
    { "loopback", "127.255.255.255", true },
    { "loopback", "128.0.0.0", false },
    { "loopback", "126.255.255.255", false },
    { "loopback", "::1", true },
    { "loopback", "::2", false },
    { "loopback", "::ffff:127.0.0.1", true },
    { "loopback", "::127.0.0.1", false },
    { "loopback", "", false },
    { "loopback", "unix:", false },
    { "loopback", "127.0.0.1 ", false },
    { "loopback", "127.0.0.1:80", false },
    { "loopback", "localhost", false },
    { "all", "192.0.2.1", true },
    { "all", "2001:db8::1", true },
    { "all", "", true },
    { "all", "unix:", true },
    { "none", "127.0.0.1", false },
    { " none ", "::1", false },
    { "none", "", false },
    { "192.0.2.1", "192.0.2.1", true },
    { "192.0.2.1", "192.0.2.0", false },
    { "192.0.2.1", "::ffff:192.0.2.1", true },
    { "192.0.2.1", "127.0.0.1", false },
    { "192.0.2.1/32", "192.0.2.1", true },
    { "192.0.2.0/24", "192.0.2.255", true },
    { "192.0.2.0/24", "192.0.3.0", false },
    { "192.0.2.128/25", "192.0.2.127", false },
    { "192.0.2.128/25", "192.0.2.128", true },
    { "192.0.2.4/30", "192.0.2.7", true },
    { "192.0.2.4/30", "192.0.2.8", false },
    { "192.0.0.0/3", "223.255.255.255", true },
    { "192.0.0.0/3", "224.0.0.0", false },
    { "0.0.0.0/0", "255.255.255.255", true },
    { "0.0.0.0/0", "2001:db8::1", false },
    { "0.0.0.0/0", "", false },
    { "2001:db8::1", "2001:DB8:0:0::1", true },
    { "2001:db8::1", "2001:db8::2", false },
    { "2001:db8::/32", "2001:db8:ffff::1", true },
    { "2001:db8::/32", "2001:db9::", false },
    { "2001:db8::/33", "2001:db8:8000::", false },
    { "2001:db8::8/127", "2001:db8::9", true },
    { "2001:db8::8/127", "2001:db8::a", false },
    { "::/0", "2001:db8::1", true },
    { "::/0", "192.0.2.1", false },
    { "::/0", "::ffff:192.0.2.1", false },
    { "::ffff:192.0.2.1", "192.0.2.1", true },
    { "::ffff:192.0.2.0/120", "192.0.2.77", true },
    { "::ffff:192.0.2.0/120", "192.0.3.0", false },
    { "::ffff:0.0.0.0/96", "192.0.3.0", true },
    { "::ffff:0.0.0.0/96", "2001:db8::1", false },
    { "192.0.2.1,loopback", "127.0.0.1", true },
    { "192.0.2.1 ,\tloopback, 2001:db8::/32", "2001:db8::1", true },
    { "192.0.2.1,loopback,2001:db8::/32", "192.0.2.1", true },
    { "192.0.2.1,loopback,2001:db8::/32", "192.0.2.2", false },
    { "loopback,all", "192.0.2.2", true },
};

START_TEST(an_address_is_in_the_list_that_names_it_or_its_network)
{
    int r = address_list_read(members[_i].text, &list, &e);
    ck_assert_msg(r == 0, "\"%s\": %s", members[_i].text, e.text);
    ck_assert_msg(address_list_has(&list, members[_i].address) == members[_i].is_in,
                  "\"%s\" should %shave \"%s\"", members[_i].text, members[_i].is_in ? "" : "not ",
                  members[_i].address);
}
END_TEST

static const struct {
    const char *text, *message;
} faults[] = {
    { "", "a member is empty" },
    { " ", "a member is empty" },
    { "loopback,", "a member is empty" },
    { ",loopback", "a member is empty" },
    { "loopback,,all", "a member is empty" },
    { "loopbck", "\"loopbck\" is no address or network, and neither loopback, all nor none" },
    { "Loopback", "\"Loopback\" is no address or network, and neither loopback, all nor none" },
    { "none,loopback", "\"none\" is no address or network, and neither loopback, all nor none" },
    { "loopback 192.0.2.1",
      "\"loopback 192.0.2.1\" is no address or network, and neither loopback, all nor none" },
    { "192.0.2", "\"192.0.2\" is no address or network, and neither loopback, all nor none" },
    { "192.0.2.256", "\"192.0.2.256\" is no address or network, and neither loopback, all nor none" },
    { "[::1]", "\"[::1]\" is no address or network, and neither loopback, all nor none" },
    { "fe80::1%eth0", "\"fe80::1%eth0\" is no address or network, and neither loopback, all nor none" },
    { "example.org", "\"example.org\" is no address or network, and neither loopback, all nor none" },
    { "loopback/8", "\"loopback/8\" is no address or network, and neither loopback, all nor none" },
    { "/8", "\"/8\" is no address or network, and neither loopback, all nor none" },
    { "192.0.2.0/33", "\"192.0.2.0/33\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/", "\"192.0.2.0/\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/-1", "\"192.0.2.0/-1\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/+8", "\"192.0.2.0/+8\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/8x", "\"192.0.2.0/8x\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/24/24", "\"192.0.2.0/24/24\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/255.255.255.0", "\"192.0.2.0/255.255.255.0\": a network's length is a number from 0 to 32" },
    { "192.0.2.0/4294967304", "\"192.0.2.0/4294967304\": a network's length is a number from 0 to 32" },
    { "2001:db8::/129", "\"2001:db8::/129\": a network's length is a number from 0 to 128" },
    { "192.0.2.1/24", "\"192.0.2.1/24\" is not the beginning of a network: that is 192.0.2.0/24" },
    { "127.0.0.1/0", "\"127.0.0.1/0\" is not the beginning of a network: that is 0.0.0.0/0" },
    { "2001:db8::1/64", "\"2001:db8::1/64\" is not the beginning of a network: that is 2001:db8::/64" },
    { "::ffff:192.0.2.1/120",
      "\"::ffff:192.0.2.1/120\" is not the beginning of a network: that is 192.0.2.0/24" },
    { "loopback,2001:0db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
      "\"2001:0db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:000...\" is no address or network" },
};

START_TEST(what_is_wrong_with_a_list_is_said_exactly)
{
    struct address_list before;

    ck_assert_int_eq(address_list_read("192.0.2.9", &list, &e), 0);
    before = list;
    int r = address_list_read(faults[_i].text, &list, &e);
    ck_assert_msg(r == ERR_FORMAT, "\"%s\": %d", faults[_i].text, r);
    ck_assert_str_eq(e.text, faults[_i].message);
    ck_assert_mem_eq(&list, &before, sizeof(list)); /* an out-parameter is untouched on failure */
}
END_TEST

START_TEST(a_list_has_its_bound)
{
    char text[(ADDRESS_NETWORKS_MAX + 1) * 16] = "192.0.2.0";
    char more[16];

    for (unsigned i = 1; i < ADDRESS_NETWORKS_MAX; i++) {
        snprintf(more, sizeof(more), ",192.0.2.%u", i);
        strcat(text, more);
    }
    ck_assert_int_eq(address_list_read(text, &list, &e), 0);
    ck_assert(address_list_has(&list, "192.0.2.63"));
    strcat(text, ",192.0.2.64");
    ck_assert_int_eq(address_list_read(text, &list, &e), ERR_LIMIT);
    ck_assert_str_eq(e.text, "there are more than 64 addresses and networks");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("addresses");
    TCase *tcase = tcase_create("addresses");

    tcase_add_loop_test(tcase, an_address_is_in_the_list_that_names_it_or_its_network, 0, COUNT(members));
    tcase_add_loop_test(tcase, what_is_wrong_with_a_list_is_said_exactly, 0, COUNT(faults));
    tcase_add_test(tcase, a_list_has_its_bound);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
