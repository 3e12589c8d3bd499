#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/config/entry.h"
#include "core/config/field.h"
#include "core/config/provider.h"
#include "core/config/snapshot.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/store/store.h"
#include "tests/unit/utf8.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Bytes 0 to 31; the ciphertexts hold sk-test-1234567890 for gpt|k1, and nothing for credential|openrouter.
 */
#define MASTER "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define SEALED "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"
#define CREDENTIAL "v1.________________..CWG5twTzkFOYQDMQkYk3cw"
#define KEY "{\"id\":\"k1\",\"ciphertext\":\"" SEALED "\"}"

/* A document with one model, one upstream and one key, and something more at each place. */
#define MODEL(upstream_more, model_more) \
    "{\"upstreams\":[{\"baseURL\":\"https://h/v1\",\"keys\":[" KEY "]" upstream_more "}]" model_more "}"
#define TREE(upstream_more, model_more, more) \
    "{\"llm\":{\"models\":{\"gpt\":" MODEL(upstream_more, model_more) "}}" more "}"
#define UPSTREAMS(list) "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":" list "}}}}"
#define KEYS(list) UPSTREAMS("[{\"baseURL\":\"https://h\",\"keys\":" list "}]")
#define BASE_URL(url) UPSTREAMS("[{\"baseURL\":" url ",\"keys\":[" KEY "]}]")
#define AT_UPSTREAM "/llm/models/gpt/upstreams/0"
/* The same for speech, where the provider stands behind what is read by its table. */
#define SPEECH(provider, upstream_more)                                                     \
    "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"say\":{\"upstreams\":[{\"keys\":[" KEY \
    "]" upstream_more "}],\"provider\":\"" provider "\"}}}}"
#define AT_SPEECH "/tts/models/say/upstreams/0"

static struct arena *arena;
static struct entry_faults faults;

static void set_up(void)
{
    arena = arena_new();
    memset(&faults, 0, sizeof(faults));
}

static void tear_down(void)
{
    arena_free(arena);
}

/* "PATH: message" lines. */
static const char *all_faults(void)
{
    const char *text = "";
    for (size_t i = 0; i < faults.count; i++)
        text = arena_printf(arena, "%s%s: %s\n", text, faults.items[i].path, faults.items[i].message);
    return text;
}

/* CALLER_KEYS with a key that has these limits. */
#define LIMITED(limits)                                                     \
    "{\"keys\":[{\"id\":\"a\",\"sha256\":"                                  \
    "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"," \
    "\"limits\":" limits "}]}"

/* VOICE_PACKS with a pack that says this besides. */
#define PACK(id, more)                                                                      \
    "{\"id\":\"" id "\",\"name\":\"n\",\"provider\":\"p\",\"model\":\"m\",\"voice\":\"v\"," \
    "\"ttsModelId\":\"t\",\"tier\":\"lite\"" more "}"
#define PACKS(more) "{\"packs\":[" PACK("a", more) "]}"

static const struct {
    enum entry_id entry;
    const char *document;
} accepted[] = {
    { ENTRY_VOICE_PACKS, "{\"packs\":[]}" },
    { ENTRY_VOICE_PACKS, PACKS("") },
    { ENTRY_VOICE_PACKS, "{\"packs\":[" PACK("b", "") "," PACK("a", ",\"enabled\":false") "]}" },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{\"pitch\":-50,\"volume\":100.0,\"rate\":25e-2}") },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{},\"description\":\"d\",\"upstreamVoice\":\"u\"") },
    { ENTRY_VOICE_PACKS,
      PACKS(",\"createdAt\":\"2026-01-02T03:04:05Z\",\"updatedAt\":\"2026-01-02T03:04:05.123456Z\"") },
    { ENTRY_VOICE_PACK_TAG_KEY, "{\"ciphertext\":\"" SEALED "\"}" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}}}" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{}},\"defaults\":{}}" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"tts\":{}}" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", "") },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"baseURL\":\"http://127.0.0.1:1/v1/x?deploymentId=1\"") },
    { ENTRY_LLM_ROUTER_CONFIG,
      SPEECH("openai", ",\"adapterParams\":{\"model\":\"tts-1\",\"defaultVoice\":\"nova\"}") },
    { ENTRY_DEFAULT_TTS_MODEL, "\"say\"" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", "", "") },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE(",\"timeoutMs\":1,\"plainTimeoutMs\":3600000,\"connectTimeoutMs\":5", "", "") },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE(",\"dialect\":\"chat\",\"supplierModel\":\"s\",\"account\":\"a\"", "", "") },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerName\":\"x-api-key\",\"headerTemplate\":\"{KEY}\"", "", "") },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE(",\"headers\":{\"anthropic-version\":\"2023-06-01\",\"x\":\"\"}", "", "") },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"fallbackTriggers\":{\"httpCodes\":[],\"onTimeout\":false}", "") },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"fallbackTriggers\":{}", "") },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE("", ",\"streamIdleTimeoutMs\":5", ",\"defaults\":{\"plainTimeoutMs\":7}") },
    { ENTRY_LLM_ROUTER_CONFIG,
      "{\"credentials\":{\"openrouter\":{\"ciphertext\":\"" CREDENTIAL
      "\"}},\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{"
      "\"baseURL\":\"http://[::1]:8080\",\"keys\":[{\"id\":\"a\",\"credential\":\"openrouter\"}]}]}}}}" },
    /* One key id in two upstreams of a model. */
    { ENTRY_LLM_ROUTER_CONFIG, UPSTREAMS("[{\"baseURL\":\"https://a\",\"keys\":[" KEY
                                         "]},{\"baseURL\":\"https://b\",\"keys\":[" KEY "]}]") },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"openrouter/m:free 模型\":" MODEL("", "") "}}}" },
    { ENTRY_DEFAULT_CHAT_MODEL, "\"gpt\"" },
    { ENTRY_DEFAULT_CHAT_MODEL, " \"gpt\"\n" },
    { ENTRY_DEFAULT_TTS_MODEL, "\"speech\"" },
    { ENTRY_DEFAULT_TTS_VOICES, "{}" },
    { ENTRY_DEFAULT_TTS_VOICES,
      "{\"a\":{\"zh\":\"v\",\"zh-CN\":\"v\",\"sr-Latn-RS\":\"v\",\"de-1996\":\"v\"},\"b\":{}}" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":{},\"other\":{\"zh-CN\":\"龙安洋\",\"sr-Latn-RS\":\"a:b c\"}}" },
    { ENTRY_CALLER_KEYS, "{\"keys\":[]}" },
    { ENTRY_CALLER_KEYS, "{\"keys\":[{\"id\":\"a\",\"sha256\":"
                         "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\","
                         "\"owner\":\"o\",\"models\":[\"m\"],\"createdAt\":\"2026-01-01T00:00:00Z\"}]}" },
    { ENTRY_CALLER_KEYS, LIMITED("{}") },
    { ENTRY_CALLER_KEYS, LIMITED("{\"concurrency\":1}") },
    { ENTRY_CALLER_KEYS, LIMITED("{\"concurrency\":100000,\"requestsPerMinute\":1000000,"
                                 "\"tokensPerMinute\":1000000000}") },
};

START_TEST(a_valid_document_is_accepted)
{
    int r = entry_check(accepted[_i].entry, span_cstr(accepted[_i].document), arena, &faults);
    ck_assert_msg(r == 0 && faults.count == 0, "%s\n%s", accepted[_i].document, all_faults());
}
END_TEST

static const struct {
    enum entry_id entry;
    const char *document, *path, *message; /* part of the message */
} refused[] = {
    /* not a document */
    { ENTRY_LLM_ROUTER_CONFIG, "", "", "not valid JSON" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},}", "", "at byte 21" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}}} x", "", "at byte 22" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"llm\":{}}", "", "a repeated member at byte 21" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"a\\u0000b\":{}}}}", "", "NUL" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"\xff\":{}}}}", "", "not UTF-8" },
    { ENTRY_LLM_ROUTER_CONFIG, "[]", "", "found a list of 0, expected an object" },
    { ENTRY_LLM_ROUTER_CONFIG, "null", "", "null" },
    { ENTRY_LLM_ROUTER_CONFIG, "7", "", "found the number 7, expected an object" },
    /* members */
    { ENTRY_LLM_ROUTER_CONFIG, "{}", "/llm", "is missing" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":null}", "/llm", "found null" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{}}", "/llm/models", "is missing" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":[]}}", "/llm/models", "found a list" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"asr\":{}}", "/asr", "unknown member" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"baseUrl\":\"x\"", "", ""), AT_UPSTREAM "/baseUrl", "\"baseURL\"" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutms\":5", "", ""), AT_UPSTREAM "/timeoutms", "\"timeoutMs\"" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"fallbackTrigger\":{}", ""), "/llm/models/gpt/fallbackTrigger",
      "\"fallbackTriggers\"" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"a/b~c\":1", "", ""), AT_UPSTREAM "/a~1b~0c", "unknown member" },
    /* reserved */
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"weight\":1", "", ""), AT_UPSTREAM "/weight", "not supported yet" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"enabled\":true", "", ""), AT_UPSTREAM "/enabled",
      "not supported yet" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"rpm\":1", "", ""), AT_UPSTREAM "/rpm", "not supported yet" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"tpm\":1", "", ""), AT_UPSTREAM "/tpm", "not supported yet" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"priceRef\":1", "", ""), AT_UPSTREAM "/priceRef",
      "not supported yet" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"maxConcurrency\":0", "", ""), AT_UPSTREAM "/maxConcurrency",
      "found the number 0, expected a whole number from 1 to 100000" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"maxConcurrency\":\"10\"", "", ""), AT_UPSTREAM "/maxConcurrency",
      "expected a whole number from 1 to 100000" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"poolWaitMs\":1", ""), "/llm/models/gpt/poolWaitMs",
      "unknown member" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"hedgeAfterMs\":49", ""), "/llm/models/gpt/hedgeAfterMs",
      "found the number 49, expected a whole number from 50 to 3600000" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"hedgeAfterMs\":30000", ""), "/llm/models/gpt/hedgeAfterMs",
      "found the number 30000, expected one below timeoutMs of upstream 0, 30000" },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE(",\"timeoutMs\":3000,\"plainTimeoutMs\":1000", ",\"hedgeAfterMs\":1000", ""),
      "/llm/models/gpt/hedgeAfterMs",
      "found the number 1000, expected one below plainTimeoutMs of upstream 0, 1000" },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE("", ",\"hedgeAfterMs\":500", ",\"defaults\":{\"fullChainTimeoutMs\":500}"),
      "/llm/models/gpt/hedgeAfterMs", "expected one below defaults.fullChainTimeoutMs, 500" },
    { ENTRY_LLM_ROUTER_CONFIG,
      "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"say\":{\"provider\":\"openai\",\"hedgeAfterMs\":60,"
      "\"upstreams\":[{\"timeoutMs\":60,\"keys\":[" KEY "]}]}}}}",
      "/tts/models/say/hedgeAfterMs", "expected one below timeoutMs of upstream 0, 60" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"strategy\":1", ""), "/llm/models/gpt/strategy",
      "not supported yet" },
    /* speech: by the tables of its adapter */
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"a\":{}}}}",
      "/tts/models/a/provider", "is missing; expected \"openai\"" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{}},\"tts\":{\"models\":[]}}", "/tts/models",
      "expected an object" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("nobody", ""), "/tts/models/say/provider",
      "found \"nobody\", expected" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"adapterParams\":[]"), AT_SPEECH "/adapterParams",
      "expected an object of the provider's parameters" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"adapterParams\":{\"modle\":\"tts-1\"}"),
      AT_SPEECH "/adapterParams/modle", "openai has no such parameter" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"adapterParams\":{\"model\":1}"),
      AT_SPEECH "/adapterParams/model", "expected a text of 1 to 200 bytes" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"adapterParams\":{\"model\":\"a\\r\\nb\"}"),
      AT_SPEECH "/adapterParams/model", "without control characters" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"region\":\"eu\""), AT_SPEECH "/region",
      "openai has no regions" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"region\":\"eu.evil.example/\""), AT_SPEECH "/region",
      "no label of a host's name" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"region\":\"eu\",\"baseURL\":\"https://h/x\""),
      AT_SPEECH "/region", "says nothing" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"baseURL\":\"https://h/x#y\""), AT_SPEECH "/baseURL",
      "it has a fragment" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"baseURL\":\"https://h/x?a=#y\""), AT_SPEECH "/baseURL",
      "it has a fragment" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"maxConcurrency\":100001"), AT_SPEECH "/maxConcurrency",
      "found the number 100001, expected a whole number from 1 to 100000" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"maxConcurrency\":1.5"), AT_SPEECH "/maxConcurrency",
      "expected a whole number" },
    { ENTRY_LLM_ROUTER_CONFIG,
      "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"say\":{\"provider\":\"openai\",\"poolWaitMs\":600001,"
      "\"upstreams\":[{\"keys\":[" KEY "]}]}}}}",
      "/tts/models/say/poolWaitMs", "found the number 600001, expected a whole number from 0 to 600000" },
    { ENTRY_LLM_ROUTER_CONFIG, SPEECH("openai", ",\"headerName\":\"x-key\""), AT_SPEECH "/headerName",
      "unknown member" },
    { ENTRY_LLM_ROUTER_CONFIG,
      "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{\"say\":{\"provider\":\"openai\",\"poolWaitMs\":1,"
      "\"upstreams\":[{\"keys\":[" KEY "]},{\"keys\":[" KEY "]}]}}}}",
      "/tts/models/say/upstreams/1", "has the endpoint and adapterParams.model of upstream 0" },
    { ENTRY_CALLER_KEYS, LIMITED("10"), "/keys/0/limits", "expected an object" },
    { ENTRY_CALLER_KEYS, LIMITED("{\"concurrency\":0}"), "/keys/0/limits/concurrency",
      "found the number 0, expected a whole number from 1 to 100000" },
    { ENTRY_CALLER_KEYS, LIMITED("{\"requestsPerMinute\":1000001}"), "/keys/0/limits/requestsPerMinute",
      "1 to 1000000" },
    { ENTRY_CALLER_KEYS, LIMITED("{\"tokensPerMinute\":1.5}"), "/keys/0/limits/tokensPerMinute",
      "a whole number" },
    { ENTRY_CALLER_KEYS, LIMITED("{\"tokensPerMinute\":\"9\"}"), "/keys/0/limits/tokensPerMinute",
      "a whole number" },
    { ENTRY_CALLER_KEYS, LIMITED("{\"requestPerMinute\":9}"), "/keys/0/limits/requestPerMinute",
      "requestsPerMinute" },
    /* numbers and words */
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutMs\":0", "", ""), AT_UPSTREAM "/timeoutMs",
      "found the number 0, expected a whole number from 1 to 3600000" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutMs\":3600001", "", ""), AT_UPSTREAM "/timeoutMs", "3600001" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"maxWorkerShare\":0", ""), "/llm/models/gpt/maxWorkerShare",
      "a whole number from 1 to 100" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"maxWorkerShare\":0.5", ""), "/llm/models/gpt/maxWorkerShare",
      "a whole number from 1 to 100" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"heartbeatMs\":-1", ""), "/llm/models/gpt/heartbeatMs",
      "expected a whole number from 0 to 3600000" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"heartbeatMs\":3600001", ""), "/llm/models/gpt/heartbeatMs",
      "3600001" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"heartbeatMs\":null", ""), "/llm/models/gpt/heartbeatMs",
      "found null" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutMs\":1.5", "", ""), AT_UPSTREAM "/timeoutMs", "1.5" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutMs\":99999999999999999999", "", ""), AT_UPSTREAM "/timeoutMs",
      "expected a whole number" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"timeoutMs\":\"5\"", "", ""), AT_UPSTREAM "/timeoutMs",
      "found a text of 1 bytes" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"dialect\":\"chatt\"", "", ""), AT_UPSTREAM "/dialect",
      "found \"chatt\", expected \"chat\"" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"fallbackTriggers\":{\"onTimeout\":1}", ""),
      "/llm/models/gpt/fallbackTriggers/onTimeout", "expected true or false" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", ",\"fallbackTriggers\":{\"httpCodes\":[429,200]}", ""),
      "/llm/models/gpt/fallbackTriggers/httpCodes/1", "from 300 to 599" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE("", "", ",\"defaults\":{\"fallbackHttpCodes\":[600]}"),
      "/defaults/fallbackHttpCodes/0", "600" },
    /* URLs; what is wrong is named, the URL is not shown */
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"\""), AT_UPSTREAM "/baseURL", "1 to 2000 bytes" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"api.openai.com/v1\""), AT_UPSTREAM "/baseURL", "no whole URL" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://\""), AT_UPSTREAM "/baseURL", "no whole URL" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https:///v1\""), AT_UPSTREAM "/baseURL", "expected an http" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"ftp://h/v1\""), AT_UPSTREAM "/baseURL", "scheme" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"file:///etc/passwd\""), AT_UPSTREAM "/baseURL",
      "expected an http" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://u:p@h/v1\""), AT_UPSTREAM "/baseURL",
      "user and password" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://u@h/v1\""), AT_UPSTREAM "/baseURL", "user and password" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h/v1?a=b\""), AT_UPSTREAM "/baseURL", "query" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h/v1?\""), AT_UPSTREAM "/baseURL", "query" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h/v1#a\""), AT_UPSTREAM "/baseURL", "fragment" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h:99999/\""), AT_UPSTREAM "/baseURL", "no whole URL" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h/a b\""), AT_UPSTREAM "/baseURL", "blank" },
    { ENTRY_LLM_ROUTER_CONFIG, BASE_URL("\"https://h/a\\r\\nx\""), AT_UPSTREAM "/baseURL", "control" },
    /* headers */
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerName\":\"a b\"", "", ""), AT_UPSTREAM "/headerName", "token" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerName\":\"a:\"", "", ""), AT_UPSTREAM "/headerName", "token" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerName\":\"HOST\"", "", ""), AT_UPSTREAM "/headerName", "own" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerName\":\"Content-Length\"", "", ""), AT_UPSTREAM "/headerName",
      "own" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerTemplate\":\"Bearer\"", "", ""), AT_UPSTREAM "/headerTemplate",
      "does not hold {KEY}" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerTemplate\":\"{KEY}{KEY}\"", "", ""),
      AT_UPSTREAM "/headerTemplate", "more than once" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headerTemplate\":\"{KEY}\\n\"", "", ""),
      AT_UPSTREAM "/headerTemplate", "control" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"Expect\":\"x\"}", "", ""), AT_UPSTREAM "/headers/Expect",
      "own" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"Accept-Encoding\":\"gzip\"}", "", ""),
      AT_UPSTREAM "/headers/Accept-Encoding", "own" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"x\":\"a\\r\\nb: c\"}", "", ""), AT_UPSTREAM "/headers/x",
      "control" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"x\":1}", "", ""), AT_UPSTREAM "/headers/x", "number 1" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"authorization\":\"x\"}", "", ""),
      AT_UPSTREAM "/headers/authorization", "carries the key" },
    { ENTRY_LLM_ROUTER_CONFIG, TREE(",\"headers\":{\"x-a\":\"1\",\"X-A\":\"2\"}", "", ""),
      AT_UPSTREAM "/headers/X-A", "twice" },
    /* names and keys */
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"a|b\":" MODEL("", "") "}}}", "/llm/models/a|b",
      "\"|\"" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"a\\nb\":" MODEL("", "") "}}}", "/llm/models/a\nb",
      "control" },
    { ENTRY_LLM_ROUTER_CONFIG, "{\"llm\":{\"models\":{\"\":" MODEL("", "") "}}}", "/llm/models/",
      "1 to 200" },
    { ENTRY_LLM_ROUTER_CONFIG, UPSTREAMS("[]"), "/llm/models/gpt/upstreams", "found a list of 0" },
    { ENTRY_LLM_ROUTER_CONFIG, UPSTREAMS("[5]"), "/llm/models/gpt/upstreams/0", "expected an object" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[]"), AT_UPSTREAM "/keys", "found a list of 0" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"ciphertext\":\"" SEALED "\"}]"), AT_UPSTREAM "/keys/0/id",
      "missing" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"id\":\"a|b\",\"ciphertext\":\"" SEALED "\"}]"),
      AT_UPSTREAM "/keys/0/id", "\"|\"" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[" KEY "," KEY "]"), AT_UPSTREAM "/keys/1/id",
      "repeats the id of key 0" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"id\":\"a\"}]"), AT_UPSTREAM "/keys/0", "found none of" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"id\":\"a\",\"ciphertext\":\"sk-live\"}]"),
      AT_UPSTREAM "/keys/0/ciphertext", "not of that form" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"id\":\"a\",\"ciphertext\":\"" SEALED "\",\"key\":\"sk-live\"}]"),
      AT_UPSTREAM "/keys/0/key", "never stored" },
    { ENTRY_LLM_ROUTER_CONFIG, KEYS("[{\"id\":\"a\",\"credential\":\"nobody\"}]"),
      AT_UPSTREAM "/keys/0/credential", "no member of /credentials" },
    { ENTRY_LLM_ROUTER_CONFIG,
      TREE("", "", ",\"credentials\":{\"a\":{\"key\":\"x\",\"ciphertext\":\"" SEALED "\"}}"),
      "/credentials/a/key", "never stored" },
    { ENTRY_LLM_ROUTER_CONFIG,
      UPSTREAMS("[{\"baseURL\":\"https://a/\",\"keys\":[" KEY "]},{\"baseURL\":\"https://a\",\"keys\":[" KEY
                "]}]"),
      "/llm/models/gpt/upstreams/1", "give each an \"id\"" },
    { ENTRY_LLM_ROUTER_CONFIG,
      UPSTREAMS("[{\"id\":\"x\",\"baseURL\":\"https://a/\",\"keys\":[" KEY
                "]},{\"id\":\"x\",\"baseURL\":\"https://b\",\"keys\":[" KEY "]}]"),
      "/llm/models/gpt/upstreams/1/id", "repeats the id of upstream 0" },
    { ENTRY_DEFAULT_CHAT_MODEL, "gpt", "", "not valid JSON" },
    { ENTRY_DEFAULT_CHAT_MODEL, "\"\"", "", "1 to 200" },
    { ENTRY_DEFAULT_CHAT_MODEL, "{}", "", "found an object" },
    { ENTRY_DEFAULT_CHAT_MODEL, "\"a|b\"", "", "\"|\"" },
    { ENTRY_DEFAULT_TTS_MODEL, "5", "", "found the number 5" },
    { ENTRY_DEFAULT_TTS_VOICES, "[]", "", "found a list" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a|b\":{}}", "/a|b", "\"|\"" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":\"v\"}", "/a", "found a text" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"zh-CN\":5}}", "/a/zh-CN", "found the number 5" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"zh-CN\":\"\"}}", "/a/zh-CN", "0 bytes" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"zh_CN\":\"v\"}}", "/a/zh_CN", "language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"-CN\":\"v\"}}", "/a/-CN", "language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"zh-\":\"v\"}}", "/a/zh-", "language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"z\":\"v\"}}", "/a/z", "language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"zh-123456789\":\"v\"}}", "/a/zh-123456789", "language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"a\":{\"\":\"v\"}}", "/a/", "0 bytes" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":\"x\"}", "/tts", "expected an object" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":{\"en_US\":\"x\"}}", "/tts/en_US", "no language tag" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":{\"en\":\"\"}}", "/tts/en", "1 to 200" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":{\"en\":1}}", "/tts/en", "found the number 1" },
    { ENTRY_DEFAULT_TTS_VOICES, "{\"tts\":{\"en\":\"a\",\"en\":\"b\"}}", "", "a repeated member" },
    { ENTRY_CALLER_KEYS, "{}", "/keys", "missing" },
    { ENTRY_VOICE_PACKS, "{}", "/packs", "missing" },
    { ENTRY_VOICE_PACKS, "{\"packs\":[" PACK("a", "") "," PACK("a", "") "]}", "/packs/1/id",
      "repeats the id of pack 0" },
    { ENTRY_VOICE_PACKS, "{\"packs\":[" PACK("a/b", "") "]}", "/packs/0/id", "something else than letters" },
    { ENTRY_VOICE_PACKS, "{\"packs\":[" PACK("", "") "]}", "/packs/0/id", "0 bytes" },
    { ENTRY_VOICE_PACKS, "{\"packs\":[{}]}", "/packs/0/tier", "is missing" },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{\"pitch\":100.5}"), "/packs/0/params/pitch",
      "found the number 100.5, expected a number from -50 to 100" },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{\"rate\":0.2}"), "/packs/0/params/rate", "from 0.25 to 4" },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{\"volume\":\"1\"}"), "/packs/0/params/volume", "found a text" },
    { ENTRY_VOICE_PACKS, PACKS(",\"params\":{\"speed\":1}"), "/packs/0/params/speed", "unknown member" },
    { ENTRY_VOICE_PACKS, PACKS(",\"enabled\":null"), "/packs/0/enabled", "found null" },
    { ENTRY_VOICE_PACKS, PACKS(",\"createdAt\":\"today\""), "/packs/0/createdAt", "a time in UTC" },
    { ENTRY_VOICE_PACKS, PACKS(",\"createdAt\":\"2026-01-02T03:04:05\""), "/packs/0/createdAt",
      "a time in UTC" },
    { ENTRY_VOICE_PACKS, PACKS(",\"createdAt\":\"2026-01-02T03:04:05+01Z\""), "/packs/0/createdAt",
      "a time in UTC" },
    { ENTRY_VOICE_PACKS, PACKS(",\"upstreamVoice\":\"\""), "/packs/0/upstreamVoice", "0 bytes" },
    { ENTRY_VOICE_PACK_TAG_KEY, "{}", "/ciphertext", "missing" },
    { ENTRY_VOICE_PACK_TAG_KEY, "{\"ciphertext\":\"secret\"}", "/ciphertext", "not of that form" },
    { ENTRY_CALLER_KEYS, "{\"keys\":[{\"id\":\"a\",\"sha256\":\"AA\"}]}", "/keys/0/sha256",
      "64 lower-case hex" },
    { ENTRY_CALLER_KEYS,
      "{\"keys\":[{\"id\":\"a\",\"sha256\":"
      "\"BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}",
      "/keys/0/sha256", "64 lower-case hex" },
    { ENTRY_CALLER_KEYS,
      "{\"keys\":[{\"id\":\"a\",\"sha256\":"
      "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"},"
      "{\"id\":\"b\",\"sha256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}",
      "/keys/1/sha256", "repeats the sha256 of key 0" },
    { ENTRY_CALLER_KEYS,
      "{\"keys\":[{\"id\":\"a\",\"sha256\":"
      "\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"},"
      "{\"id\":\"a\",\"sha256\":\"aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}",
      "/keys/1/id", "repeats the id of key 0" },
};

START_TEST(a_fault_is_named_with_its_place_and_what_is_allowed)
{
    bool found = false;
    int r = entry_check(refused[_i].entry, span_cstr(refused[_i].document), arena, &faults);
    ck_assert_msg(r == ERR_FORMAT, "accepted: %s", refused[_i].document);
    for (size_t i = 0; i < faults.count; i++)
        found = found || (strcmp(faults.items[i].path, refused[_i].path) == 0 &&
                          strstr(faults.items[i].message, refused[_i].message) != NULL);
    ck_assert_msg(found, "%s\nexpected %s: …%s…\nfound\n%s", refused[_i].document, refused[_i].path,
                  refused[_i].message, all_faults());
    ck_assert_msg(strstr(all_faults(), "sk-live") == NULL, "a key is in\n%s", all_faults());
}
END_TEST

START_TEST(all_faults_are_reported_in_the_order_of_the_document)
{
    static const char *const paths[] = {
        "/defaults/plainTimeoutMs",         "/zzz",
        "/llm/models/a/upstreams/0/weight", "/llm/models/a/upstreams/0/keys/0/ciphertext",
        "/llm/models/a/strategy",           "/llm/models/b/upstreams",
    };
    const char *document =
        "{\"defaults\":{\"plainTimeoutMs\":0},\"zzz\":1,\"llm\":{\"models\":{"
        "\"a\":{\"upstreams\":[{\"weight\":1,\"baseURL\":\"http://h\",\"keys\":[{\"id\":\"k\","
        "\"ciphertext\":5}]}],\"strategy\":1},\"b\":{\"upstreams\":{}}}}}";
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, span_cstr(document), arena, &faults), ERR_FORMAT);
    ck_assert_msg(faults.count == COUNT(paths), "%s", all_faults());
    for (size_t i = 0; i < COUNT(paths); i++)
        ck_assert_str_eq(faults.items[i].path, paths[i]);
}
END_TEST

START_TEST(faults_beyond_the_hundredth_are_counted)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_append_cstr(&text, "{\"llm\":{\"models\":{}}");
    for (int i = 0; i < 130; i++)
        buf_printf(&text, ",\"unknown%d\":1", i);
    buf_append_cstr(&text, "}");
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, buf_span(&text), arena, &faults), ERR_FORMAT);
    ck_assert_uint_eq(faults.count, 100);
    ck_assert_uint_eq(faults.dropped, 30);
    buf_free(&text);
}
END_TEST

START_TEST(a_very_long_name_is_cut_in_the_path_and_in_no_character)
{
    char name[700];
    for (size_t i = 0; i < 699; i += 3)
        memcpy(name + i, "模", 3);
    const char *document = arena_printf(arena, "{\"llm\":{\"models\":{}},\"%.699s\":1}", name);
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, span_cstr(document), arena, &faults), ERR_FORMAT);
    ck_assert_uint_lt(strlen(faults.items[0].path), 210);
    ck_assert(is_utf8(span_cstr(faults.items[0].path)));
}
END_TEST

START_TEST(a_document_nested_too_deeply_is_refused)
{
    char text[400];
    memset(text, '[', 200);
    memset(text + 200, ']', 200);
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, span_of(text, 400), arena, &faults), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(faults.items[0].message, "nested"));
}
END_TEST

START_TEST(a_document_as_deep_as_the_scanner_allows_reaches_the_table)
{
    char text[2 * JSON_DEPTH_MAX];
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, span_of(text, sizeof(text)), arena, &faults),
                     ERR_FORMAT);
    ck_assert_str_eq(faults.items[0].message, "found a list of 1, expected an object");
}
END_TEST

/* ---- compiling ---- */

static struct span image;
static size_t undecryptable;

static const struct snap_root *compile(const char *tree, bool with_keys)
{
    struct envelope_keys keys;
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    enum entry_id which = ENTRY_COUNT;
    struct error e;
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(MASTER), span_of("", 0), NULL), 0);
    values[ENTRY_LLM_ROUTER_CONFIG] =
        (struct entry_value){ span_cstr(tree), "0123456789abcdef0123456789abcdef" };
    int r =
        entry_compile(values, 42, with_keys ? &keys : NULL, arena, &image, &undecryptable, &which, &faults);
    ck_assert_msg(r == 0, "%s", all_faults());
    ck_assert_msg(snapshot_check(image, &e) == 0, "%s", e.text);
    return (const void *)image.ptr;
}

static const struct snap_upstream *upstream(const struct snap_root *root, uint32_t i)
{
    const struct snap_model *model = snapshot_model(root, span_cstr("gpt"));
    ck_assert_ptr_nonnull(model);
    return SNAP_ITEM(root, model->upstreams, struct snap_upstream, i);
}

static bool has_codes(const struct snap_root *root, struct snap_vec codes, const uint32_t *expected, size_t n)
{
    return codes.count == n && memcmp(snap_at(root, codes.offset), expected, n * sizeof(*expected)) == 0;
}

START_TEST(an_absent_member_has_the_default_of_its_row)
{
    static const uint32_t codes[] = { 401, 402, 403, 429, 500, 502, 503, 504 };
    const struct snap_root *root = compile(TREE("", "", ""), false);
    const struct snap_model *model = snapshot_model(root, span_cstr("gpt"));
    const struct snap_upstream *u = upstream(root, 0);
    ck_assert_str_eq(snap_cstr(root, u->header_name), "Authorization");
    ck_assert_str_eq(snap_cstr(root, u->header_template), "Bearer {KEY}");
    ck_assert_str_eq(snap_cstr(root, u->dialect), "chat");
    ck_assert(!snap_has(u->override_model) && !snap_has(u->supplier_model) && !snap_has(u->account));
    ck_assert_uint_eq(u->headers.count, 0);
    ck_assert_uint_eq(u->timeout_ms, 30000);
    ck_assert_uint_eq(u->plain_timeout_ms, 0);
    ck_assert_uint_eq(u->connect_timeout_ms, 10000);
    ck_assert_uint_eq(u->propagates_trace, 0);
    ck_assert_uint_eq(model->stream_idle_timeout_ms, 120000);
    ck_assert_uint_eq(model->full_chain_timeout_ms, 60000);
    ck_assert_uint_eq(model->on_timeout, 1);
    ck_assert(has_codes(root, model->http_codes, codes, COUNT(codes)));
    ck_assert_uint_eq(root->client_stall_timeout_ms, 60000);
}
END_TEST

static const struct {
    const char *tree;
    unsigned heartbeat_ms, beats_before_content;
} heartbeats[] = {
    { TREE("", "", ""), 15000, 0 },
    { TREE("", ",\"heartbeatMs\":0", ""), 0, 1 },
    { TREE("", ",\"heartbeatMs\":1", ""), 1, 1 },
    { TREE("", ",\"heartbeatMs\":15000", ""), 15000, 1 },
    { TREE("", ",\"heartbeatMs\":3600000", ""), 3600000, 1 },
};

START_TEST(heartbeats_come_before_content_only_where_the_model_says_how_often)
{
    const struct snap_root *root = compile(heartbeats[_i].tree, false);
    const struct snap_model *model = snapshot_model(root, span_cstr("gpt"));
    ck_assert_uint_eq(model->heartbeat_ms, heartbeats[_i].heartbeat_ms);
    ck_assert_uint_eq(model->beats_before_content, heartbeats[_i].beats_before_content);
}
END_TEST

static const struct {
    const char *tree;
    unsigned percent;
} shares[] = {
    { TREE("", "", ""), 100 },
    { TREE("", ",\"maxWorkerShare\":1", ""), 1 },
    { TREE("", ",\"maxWorkerShare\":100", ""), 100 },
};

static const struct {
    const char *tree;
    unsigned ms;
} hedges[] = {
    { TREE("", "", ""), 0 },
    { TREE("", ",\"hedgeAfterMs\":50", ""), 50 },
    { TREE(",\"timeoutMs\":500", ",\"hedgeAfterMs\":499", ""), 499 },
};

START_TEST(nobody_is_asked_beside_another_unless_the_model_says_after_how_long)
{
    const struct snap_root *root = compile(hedges[_i].tree, false);
    ck_assert_uint_eq(snapshot_model(root, span_cstr("gpt"))->hedge_after_ms, hedges[_i].ms);
}
END_TEST

START_TEST(a_model_may_have_all_workers_unless_it_says_otherwise)
{
    const struct snap_root *root = compile(shares[_i].tree, false);
    ck_assert_uint_eq(snapshot_model(root, span_cstr("gpt"))->worker_share_percent, shares[_i].percent);
}
END_TEST

/* A document with two models of speech and one of chat, each with the upstreams given. */
#define POOLED(say, tell, gpt)                                                                             \
    "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[" gpt "]}}},\"tts\":{\"models\":{"                      \
    "\"say\":{\"provider\":\"volcengine\",\"upstreams\":[" say "]},\"tell\":{\"provider\":\"volcengine\"," \
    "\"poolWaitMs\":600000,\"upstreams\":[" tell "]}}}}"
#define ENDPOINT(more) "{\"baseURL\":\"http://h/x\",\"keys\":[" KEY "]" more "}"
#define APP(id) ",\"adapterParams\":{\"appid\":\"" id "\"}"

static const struct {
    const char *say, *tell, *gpt; /* one upstream of each */
    const char *pools[3];
} named_pools[] = {
    { ENDPOINT(APP("123") ",\"maxConcurrency\":10"),
      ENDPOINT(APP("123")),
      ENDPOINT(",\"id\":\"plan\""),
      { "tts:pool:123", "tts:pool:123", "llm:pool:model:[\"gpt\",\"id\",\"plan\"]" } },
    { ENDPOINT(APP("1") ",\"id\":\"plan\""),
      ENDPOINT(APP("2") ",\"id\":\"plan\""),
      ENDPOINT(",\"id\":\"a\\\"b\""),
      { "tts:pool:1", "tts:pool:2", "llm:pool:model:[\"gpt\",\"id\",\"a\\\"b\"]" } },
};

static const struct snap_upstream *first_upstream(const struct snap_root *root,
                                                  const struct snap_model *model)
{
    ck_assert_ptr_nonnull(model);
    return SNAP_ITEM(root, model->upstreams, struct snap_upstream, 0);
}

START_TEST(a_pool_is_its_app_s_whatever_the_model_and_else_of_one_upstream_of_one_model)
{
    const struct snap_root *root =
        compile(arena_printf(arena, POOLED("%1$s", "%2$s", "%3$s"), named_pools[_i].say, named_pools[_i].tell,
                             named_pools[_i].gpt),
                false);
    const struct snap_upstream *all[] = {
        first_upstream(root, snapshot_tts_model(root, span_cstr("say"))),
        first_upstream(root, snapshot_tts_model(root, span_cstr("tell"))),
        first_upstream(root, snapshot_model(root, span_cstr("gpt"))),
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        ck_assert_str_eq(snap_cstr(root, all[i]->pool), named_pools[_i].pools[i]);
        ck_assert_uint_ne(all[i]->pool_hash, 0);
        for (size_t j = 0; j < i; j++)
            ck_assert_int_eq(all[i]->pool_hash == all[j]->pool_hash,
                             strcmp(named_pools[_i].pools[i], named_pools[_i].pools[j]) == 0);
    }
}
END_TEST

START_TEST(pools_of_one_upstream_s_name_in_two_models_are_two)
{
    static const char tree[] =
        "{\"llm\":{\"models\":{}},\"tts\":{\"models\":{"
        "\"a\":{\"provider\":\"openai\",\"upstreams\":[{\"id\":\"plan\",\"keys\":[" KEY "]}]},"
        "\"b\":{\"provider\":\"openai\",\"upstreams\":[{\"id\":\"plan\",\"keys\":[" KEY "]},"
        "{\"baseURL\":\"http://h/x\",\"keys\":[" KEY "]}]}}}}";
    const struct snap_root *root = compile(tree, false);
    const struct snap_model *b = snapshot_tts_model(root, span_cstr("b"));
    const struct snap_upstream *second = SNAP_ITEM(root, b->upstreams, struct snap_upstream, 1);
    ck_assert_str_eq(snap_cstr(root, first_upstream(root, snapshot_tts_model(root, span_cstr("a")))->pool),
                     "tts:pool:model:[\"a\",\"id\",\"plan\"]");
    ck_assert_str_eq(snap_cstr(root, first_upstream(root, b)->pool),
                     "tts:pool:model:[\"b\",\"id\",\"plan\"]");
    ck_assert_str_eq(
        snap_cstr(root, second->pool),
        arena_printf(arena, "tts:pool:model:[\"b\",\"id\",\"%s\"]", snap_cstr(root, second->id)));
}
END_TEST

START_TEST(an_upstream_has_no_limit_and_nobody_waits_unless_the_document_says_so)
{
    const struct snap_root *root = compile(POOLED(ENDPOINT(APP("1") ",\"maxConcurrency\":1"),
                                                  ENDPOINT(APP("1")), ENDPOINT(",\"maxConcurrency\":100000")),
                                           false);
    const struct snap_model *say = snapshot_tts_model(root, span_cstr("say")),
                            *tell = snapshot_tts_model(root, span_cstr("tell")),
                            *gpt = snapshot_model(root, span_cstr("gpt"));
    ck_assert_uint_eq(first_upstream(root, say)->max_concurrency, 1);
    ck_assert_uint_eq(first_upstream(root, tell)->max_concurrency, 0);
    ck_assert_uint_eq(first_upstream(root, gpt)->max_concurrency, 100000);
    ck_assert_uint_eq(say->pool_wait_ms, 0);
    ck_assert_uint_eq(tell->pool_wait_ms, 600000);
    ck_assert_uint_eq(gpt->pool_wait_ms, 0);
}
END_TEST

START_TEST(defaults_are_those_of_the_document_wherever_they_stand)
{
    static const uint32_t codes[] = { 418 };
    static const char defaults[] =
        "\"defaults\":{\"perAttemptTimeoutMs\":1,\"fullChainTimeoutMs\":2,"
        "\"plainTimeoutMs\":3,\"connectTimeoutMs\":4,\"streamIdleTimeoutMs\":5,"
        "\"clientStallTimeoutMs\":6,\"fallbackHttpCodes\":[418],\"propagateTrace\":true}";
    for (int first = 0; first < 2; first++) {
        const char *models = "\"llm\":{\"models\":{\"gpt\":" MODEL("", "") "}}";
        const struct snap_root *root = compile(
            arena_printf(arena, "{%s,%s}", first ? defaults : models, first ? models : defaults), false);
        const struct snap_model *model = snapshot_model(root, span_cstr("gpt"));
        const struct snap_upstream *u = upstream(root, 0);
        ck_assert_uint_eq(u->timeout_ms, 1);
        ck_assert_uint_eq(model->full_chain_timeout_ms, 2);
        ck_assert_uint_eq(u->plain_timeout_ms, 3);
        ck_assert_uint_eq(u->connect_timeout_ms, 4);
        ck_assert_uint_eq(u->propagates_trace, 1);
        ck_assert_uint_eq(model->stream_idle_timeout_ms, 5);
        ck_assert_uint_eq(root->client_stall_timeout_ms, 6);
        ck_assert(has_codes(root, model->http_codes, codes, 1));
    }
}
END_TEST

START_TEST(a_present_member_wins_over_the_default)
{
    static const uint32_t codes[] = { 300, 599 };
    const struct snap_root *root = compile(
        TREE(",\"timeoutMs\":11,\"plainTimeoutMs\":12,\"connectTimeoutMs\":13,\"propagateTrace\":false,"
             "\"headerName\":\"x-api-key\","
             "\"headerTemplate\":\"k={KEY}\",\"overrideModel\":\"real\",\"headers\":{\"x-a\":\"1\",\"x-b\":"
             "\"\"},"
             "\"supplierModel\":\"s\",\"account\":\"acc\",\"id\":\"u\",\"provider\":\"p\"",
             ",\"streamIdleTimeoutMs\":14,\"fallbackTriggers\":{\"httpCodes\":[300,599],\"onTimeout\":false}",
             ",\"defaults\":{\"perAttemptTimeoutMs\":1,\"propagateTrace\":true}"),
        false);
    const struct snap_model *model = snapshot_model(root, span_cstr("gpt"));
    const struct snap_upstream *u = upstream(root, 0);
    ck_assert_uint_eq(u->timeout_ms, 11);
    ck_assert_uint_eq(u->plain_timeout_ms, 12);
    ck_assert_uint_eq(u->connect_timeout_ms, 13);
    ck_assert_uint_eq(u->propagates_trace, 0);
    ck_assert_str_eq(snap_cstr(root, u->header_name), "x-api-key");
    ck_assert_str_eq(snap_cstr(root, u->header_template), "k={KEY}");
    ck_assert_str_eq(snap_cstr(root, u->override_model), "real");
    ck_assert_str_eq(snap_cstr(root, u->supplier_model), "s");
    ck_assert_str_eq(snap_cstr(root, u->account), "acc");
    ck_assert_str_eq(snap_cstr(root, u->id), "u");
    ck_assert_str_eq(snap_cstr(root, u->provider), "p");
    ck_assert_uint_eq(u->headers.count, 2);
    const struct snap_header_line *line = SNAP_ITEM(root, u->headers, struct snap_header_line, 1);
    ck_assert_str_eq(snap_cstr(root, line->name), "x-b");
    ck_assert_str_eq(snap_cstr(root, line->value), "");
    ck_assert_uint_eq(model->stream_idle_timeout_ms, 14);
    ck_assert_uint_eq(model->on_timeout, 0);
    ck_assert(has_codes(root, model->http_codes, codes, 2));
}
END_TEST

static const struct {
    const char *base, *url, *host, *provider;
} urls[] = {
    { "https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1", "openrouter.ai", "openrouter" },
    { "https://openrouter.ai/api/v1//", "https://openrouter.ai/api/v1", "openrouter.ai", "openrouter" },
    { "https://API.OpenAI.com/v1/", "https://API.OpenAI.com/v1", "api.openai.com", "openai" },
    { "http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1", "127.0.0.1" },
    { "http://[::1]:8080/", "http://[::1]:8080", "[::1]", "[::1]" },
    { "https://x.openai.azure.com/openai/v1", "https://x.openai.azure.com/openai/v1", "x.openai.azure.com",
      "azure" },
};

START_TEST(the_url_is_the_base_without_its_last_slashes)
{
    const char *tree = arena_printf(arena, BASE_URL("\"%s\""), urls[_i].base);
    const struct snap_root *root = compile(tree, false);
    const struct snap_upstream *u = upstream(root, 0);
    ck_assert_str_eq(snap_cstr(root, u->url), urls[_i].url);
    ck_assert_str_eq(snap_cstr(root, u->host), urls[_i].host);
    ck_assert_str_eq(snap_cstr(root, u->provider), urls[_i].provider);
}
END_TEST

static const struct {
    const char *host, *provider;
} hosts[] = {
    { "api.anthropic.com", "anthropic" },
    { "generativelanguage.googleapis.com", "gemini" },
    { "us-central1-aiplatform.googleapis.com", "vertex" },
    { "aiplatform.googleapis.com", "vertex" },
    { "bedrock-runtime.us-east-1.amazonaws.com", "bedrock" },
    { "api.moonshot.cn", "moonshot" },
    { "api.z.ai", "zhipu" },
    { "dashscope-intl.aliyuncs.com", "dashscope" },
    { "ark.cn-beijing.volces.com", "ark" },
    { "api.minimax.io", "minimax" },
    { "api.minimaxi.com", "minimax" },
    { "api.cohere.ai", "cohere" },
    { "integrate.api.nvidia.com", "nvidia" },
    { "evil-openrouter.ai", "evil-openrouter.ai" },
    { "openrouter.ai.example", "openrouter.ai.example" },
    { "localhost", "localhost" },
};

START_TEST(the_provider_is_known_from_the_host)
{
    ck_assert_str_eq(provider_of_host(hosts[_i].host), hosts[_i].provider);
}
END_TEST

/* An adapter's name is the protocol's; the same word may name another's chat. */
START_TEST(telemetry_names_a_provider_of_speech_by_its_service_and_any_other_as_it_is)
{
    static const struct {
        const char *adapter, *params, *name;
    } rows[] = {
        { "azure", "{}", "azure.speech" },
        { "dashscope-cosyvoice", "{}", "dashscope.cosyvoice" },
        { "volcengine", "{\"appid\":\"1\"}", "volcengine.tts" },
        { "openai", "{}", "openai" },
        { "elevenlabs", "{}", "elevenlabs" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *more = arena_printf(arena, ",\"baseURL\":\"https://h.example/say\",\"adapterParams\":%s",
                                        rows[i].params);
        const struct snap_root *root =
            compile(arena_printf(arena, SPEECH("%2$s", "%1$s"), more, rows[i].adapter), false);
        const struct snap_model *model = snapshot_tts_model(root, span_cstr("say"));
        struct span name =
            provider_in_telemetry(root, SNAP_ITEM(root, model->upstreams, struct snap_upstream, 0));
        ck_assert_msg(span_is(name, rows[i].name), "%s: %.*s", rows[i].adapter, (int)name.len, name.ptr);
    }
    const struct snap_root *root = compile(TREE(",\"provider\":\"azure\"", "", ""), false);
    ck_assert(span_is(provider_in_telemetry(root, upstream(root, 0)), "azure"));
}
END_TEST

static const struct {
    const char *more, *url, *host, *params;
} speeches[] = {
    { "", "https://api.openai.com/v1/audio/speech", "api.openai.com", "" },
    { ",\"baseURL\":\"http://H.example:81/a/?x=1\"", "http://H.example:81/a/?x=1", "h.example", "" },
    { ",\"adapterParams\":{ \"model\" : \"tts-1\" }", "https://api.openai.com/v1/audio/speech",
      "api.openai.com", "{\"model\":\"tts-1\"}" },
};

START_TEST(an_upstream_of_speech_has_its_whole_endpoint_and_the_clocks_of_the_defaults)
{
    const struct snap_root *root =
        compile(arena_printf(arena, SPEECH("openai", "%s"), speeches[_i].more), false);
    const struct snap_model *model = snapshot_tts_model(root, span_cstr("say"));
    ck_assert_ptr_null(snapshot_model(root, span_cstr("say")));
    ck_assert_ptr_nonnull(model);
    const struct snap_upstream *u = SNAP_ITEM(root, model->upstreams, struct snap_upstream, 0);
    ck_assert_str_eq(snap_cstr(root, u->url), speeches[_i].url);
    ck_assert_str_eq(snap_cstr(root, u->host), speeches[_i].host);
    ck_assert_str_eq(snap_cstr(root, u->provider), "openai");
    ck_assert_str_eq(snap_cstr(root, u->dialect), "speech");
    ck_assert_str_eq(snap_cstr(root, u->adapter_params), speeches[_i].params);
    ck_assert(snap_has(u->id));
    ck_assert_uint_eq(u->timeout_ms, 30000);
    ck_assert_uint_eq(u->plain_timeout_ms, 0);
    ck_assert_uint_eq(model->stream_idle_timeout_ms, 120000);
    ck_assert_uint_eq(model->full_chain_timeout_ms, 60000);
    ck_assert_uint_eq(model->on_timeout, 1);
    ck_assert_uint_eq(model->heartbeat_ms, 0);
    ck_assert_uint_eq(model->worker_share_percent, 100);
}
END_TEST

START_TEST(an_id_is_derived_from_what_the_upstream_is_not_from_its_place)
{
    char expected[16] = "u-";
    fingerprint(span_cstr("gpt|chat|https://b|real"), 12, expected + 2);
    static const char a[] = "{\"baseURL\":\"https://a\",\"keys\":[" KEY "]}";
    static const char b[] =
        "{\"baseURL\":\"https://b/\",\"overrideModel\":\"real\",\"keys\":[" KEY "],\"timeoutMs\":5}";
    const struct snap_root *root = compile(arena_printf(arena, UPSTREAMS("[%s,%s]"), a, b), false);
    ck_assert_str_eq(snap_cstr(root, upstream(root, 1)->id), expected);
    root = compile(arena_printf(arena, UPSTREAMS("[%s,%s]"), b, a), false);
    ck_assert_str_eq(snap_cstr(root, upstream(root, 0)->id), expected);
    ck_assert_str_ne(snap_cstr(root, upstream(root, 1)->id), expected);
}
END_TEST

static const char with_credential[] =
    "{\"credentials\":{\"openrouter\":{\"ciphertext\":\"" CREDENTIAL
    "\"}},\"llm\":{\"models\":{\"gpt\":{\"upstreams\":"
    "[{\"baseURL\":\"https://h\",\"keys\":[" KEY ",{\"id\":\"k2\",\"credential\":\"openrouter\"},"
    "{\"id\":\"k3\",\"ciphertext\":\"" SEALED "\"}]}]}}}}";

START_TEST(keys_have_their_additional_data_and_the_fingerprint_of_what_they_hold)
{
    char expected[SNAPSHOT_FP_BYTES];
    const struct snap_root *root = compile(with_credential, true);
    const struct snap_key *keys = SNAP_ITEM(root, upstream(root, 0)->keys, struct snap_key, 0);
    fingerprint(span_cstr("sk-test-1234567890"), 8, expected);
    ck_assert_str_eq(keys[0].fingerprint, expected);
    ck_assert_str_eq(snap_cstr(root, keys[0].aad), "gpt|k1");
    fingerprint(span_cstr(""), 8, expected);
    ck_assert_str_eq(keys[1].fingerprint, expected);
    ck_assert_str_eq(snap_cstr(root, keys[1].id), "k2");
    ck_assert_str_eq(snap_cstr(root, keys[1].aad), "credential|openrouter");
    ck_assert_str_eq(snap_cstr(root, keys[1].ciphertext), CREDENTIAL);
    /* Sealed for another place: counted, and no failure. */
    ck_assert_str_eq(keys[2].fingerprint, "");
    ck_assert_uint_eq(undecryptable, 1);
    root = compile(with_credential, false);
    ck_assert_str_eq(SNAP_ITEM(root, upstream(root, 0)->keys, struct snap_key, 0)->fingerprint, "");
    ck_assert_uint_eq(undecryptable, 3);
}
END_TEST

START_TEST(no_plaintext_is_in_the_image)
{
    compile(with_credential, true);
    ck_assert_ptr_null(memmem(image.ptr, image.len, "sk-test", 7));
}
END_TEST

START_TEST(the_root_says_which_generation_of_which_document_it_is)
{
    const struct snap_root *root = compile(TREE("", "", ""), false);
    ck_assert_uint_eq(root->generation, 42);
    ck_assert_str_eq(root->tree_version, "0123456789abcdef0123456789abcdef");
    ck_assert_uint_eq(root->has_tree, 1);
    ck_assert_uint_gt(root->compiled_wall_us, 0);
}
END_TEST

START_TEST(one_document_gives_one_image_apart_from_its_time)
{
    compile(with_credential, true);
    struct span first = image;
    ((struct snap_root *)(uintptr_t)first.ptr)->compiled_wall_us = 0;
    compile(with_credential, true);
    ((struct snap_root *)(uintptr_t)image.ptr)->compiled_wall_us = 0;
    ck_assert(span_eq(first, image));
}
END_TEST

START_TEST(the_entry_that_is_refused_is_named_and_nothing_is_given)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    enum entry_id which = ENTRY_COUNT;
    struct span untouched = span_of("x", 1);
    size_t n = 77;
    values[ENTRY_CALLER_KEYS] = (struct entry_value){ span_cstr("{"), "v" };
    ck_assert_int_eq(entry_compile(values, 1, NULL, arena, &untouched, &n, &which, &faults), ERR_FORMAT);
    ck_assert_int_eq(which, ENTRY_CALLER_KEYS);
    ck_assert_uint_gt(faults.count, 0);
    ck_assert_str_eq(untouched.ptr, "x");
    ck_assert_uint_eq(n, 77);
}
END_TEST

/* Each upstream's URL is stored with a name of the model: an image larger than its document. */
START_TEST(an_image_beyond_the_limit_is_refused)
{
    struct buf text;
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    enum entry_id which;
    buf_init(&text, STORE_VALUE_LIMIT_BYTES);
    char path[1900];
    memset(path, 'p', sizeof(path));
    buf_append_cstr(&text, "{\"llm\":{\"models\":{");
    for (int i = 0; i < 4500; i++)
        buf_printf(&text,
                   "%s\"m%d\":{\"upstreams\":[{\"baseURL\":\"https://h/%.1900s\",\"keys\":[" KEY "]}]}",
                   i == 0 ? "" : ",", i, path);
    buf_append_cstr(&text, "}}}");
    ck_assert(!text.overflowed);
    values[ENTRY_LLM_ROUTER_CONFIG] = (struct entry_value){ buf_span(&text), "v" };
    ck_assert_int_eq(entry_compile(values, 1, NULL, arena, &image, &undecryptable, &which, &faults),
                     ERR_LIMIT);
    ck_assert_int_eq(entry_check(ENTRY_LLM_ROUTER_CONFIG, buf_span(&text), arena, &faults), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(faults.items[0].message, "snapshot"));
    buf_free(&text);
}
END_TEST

/* ---- the table itself ---- */

static void check_record(const struct record *record)
{
    for (size_t i = 0; i < record->n_fields; i++) {
        const struct field *field = &record->fields[i];
        size_t len = field->doc == NULL ? 0 : strlen(field->doc);
        ck_assert_msg(len > 0, "%s has no doc", field->name);
        if (field->kind != FIELD_REFUSED)
            ck_assert_msg(field->doc[len - 1] == '.', "%s: the doc is no sentence", field->name);
        ck_assert_msg(!(field->is_required && (field->preset != NULL || field->inherits != NULL)),
                      "%s is required and has a default", field->name);
        if (field->inherits != NULL) {
            const struct field *from = field_of_defaults(field->inherits);
            ck_assert_msg(from != NULL && from->kind == field->kind, "%s inherits %s", field->name,
                          field->inherits);
        }
        if (field->kind == FIELD_TEXT || field->kind == FIELD_TEXTS || field->kind == FIELD_MAP)
            ck_assert_msg(field->rule != NULL, "%s has no rule", field->name);
        if (field->record != NULL)
            check_record(field->record);
    }
}

START_TEST(every_row_is_complete)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        const struct field *field = entry_row((enum entry_id)i)->field;
        ck_assert_ptr_nonnull(field->doc);
        if (field->record != NULL)
            check_record(field->record);
    }
}
END_TEST

START_TEST(entries_are_found_by_name)
{
    enum entry_id id;
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        ck_assert_int_eq(entry_by_name(span_cstr(entry_name((enum entry_id)i)), &id), 0);
        ck_assert_uint_eq((size_t)id, i);
    }
    ck_assert_int_eq(entry_by_name(span_cstr("LLM_ROUTER"), &id), ERR_NOT_FOUND);
}
END_TEST

static json_object *at(json_object *object, const char *pointer)
{
    json_object *found = NULL;
    ck_assert_msg(json_pointer_get(object, pointer, &found) == 0, "the schema has no %s", pointer);
    return found;
}

START_TEST(the_schema_has_the_fields_with_their_bounds_and_defaults)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    entry_schema(ENTRY_LLM_ROUTER_CONFIG, &text);
    buf_append_char(&text, '\0');
    json_object *schema = json_tokener_parse(text.data);
    ck_assert_ptr_nonnull(schema);
    json_object *upstream_schema =
        at(schema, "/properties/llm/properties/models/additionalProperties/properties/upstreams/items");
    ck_assert_int_eq(json_object_get_int(at(upstream_schema, "/properties/timeoutMs/maximum")), 3600000);
    ck_assert_str_eq(json_object_get_string(at(upstream_schema, "/properties/headerName/default")),
                     "Authorization");
    ck_assert_int_eq(json_object_get_boolean(at(upstream_schema, "/additionalProperties")), 0);
    ck_assert_str_eq(json_object_get_string(at(upstream_schema, "/required/0")), "baseURL");
    ck_assert_str_eq(json_object_get_string(at(upstream_schema, "/properties/keys/items/oneOf/1/required/0")),
                     "credential");
    ck_assert(!json_object_object_get_ex(at(upstream_schema, "/properties"), "weight", NULL));
    ck_assert_int_eq(
        json_object_get_int(at(schema, "/properties/defaults/properties/perAttemptTimeoutMs/default")),
        30000);
    json_object_put(schema);
    buf_free(&text);
}
END_TEST

/* Each row of each adapter's table that an operator may set, under the condition of its provider. */
START_TEST(the_schema_has_the_parameters_of_every_adapter)
{
    const char *name;
    struct buf text;
    buf_init(&text, 1024 * 1024);
    entry_schema(ENTRY_LLM_ROUTER_CONFIG, &text);
    buf_append_char(&text, '\0');
    json_object *schema = json_tokener_parse(text.data);
    ck_assert_ptr_nonnull(schema);
    json_object *conditions = at(schema, "/properties/tts/properties/models/additionalProperties/allOf");
    for (size_t i = 0; (name = adapter_name(i)) != NULL; i++) {
        const struct adapter *adapter = adapter_find(span_cstr(name));
        const struct adapter_param *param;
        json_object *condition = json_object_array_get_idx(conditions, i);
        ck_assert_str_eq(json_object_get_string(at(condition, "/if/properties/provider/const")), name);
        json_object *params = at(condition, "/then/properties/upstreams/items/properties/adapterParams");
        ck_assert_int_eq(json_object_get_boolean(at(params, "/additionalProperties")), 0);
        for (size_t n = 0; (param = adapter_param(adapter, n)) != NULL; n++) {
            json_object *row = NULL;
            ck_assert_msg(json_object_object_get_ex(at(params, "/properties"), param->name, &row),
                          "%s has no %s", name, param->name);
            ck_assert_str_eq(json_object_get_string(at(row, "/description")), param->doc);
            if (param->kind == PARAM_NUMBER || param->kind == PARAM_WHOLE) {
                ck_assert_double_eq(json_object_get_double(at(row, "/minimum")), param->min);
                ck_assert_double_eq(json_object_get_double(at(row, "/maximum")), param->max);
            }
        }
    }
    json_object_put(schema);
    buf_free(&text);
}
END_TEST

START_TEST(the_manual_names_every_field)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    entry_manual(&text);
    buf_append_char(&text, '\0');
    ck_assert_ptr_nonnull(strstr(text.data, ".Ss LLM_ROUTER_CONFIG/llm/models/NAME/upstreams/N/keys/N\n"));
    ck_assert_ptr_nonnull(strstr(text.data, ".It Cm headerTemplate\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "by default \"Bearer {KEY}\"."));
    ck_assert_ptr_nonnull(strstr(text.data, "Known, but refused: weight, enabled,"));
    ck_assert_ptr_nonnull(strstr(text.data, ".Ss DEFAULT_CHAT_MODEL\n"));
    buf_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("entry");
    TCase *tests = tcase_create("entry");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_valid_document_is_accepted, 0, COUNT(accepted));
    tcase_add_loop_test(tests, a_fault_is_named_with_its_place_and_what_is_allowed, 0, COUNT(refused));
    tcase_add_test(tests, all_faults_are_reported_in_the_order_of_the_document);
    tcase_add_test(tests, faults_beyond_the_hundredth_are_counted);
    tcase_add_test(tests, a_very_long_name_is_cut_in_the_path_and_in_no_character);
    tcase_add_test(tests, a_document_nested_too_deeply_is_refused);
    tcase_add_test(tests, a_document_as_deep_as_the_scanner_allows_reaches_the_table);
    tcase_add_test(tests, an_absent_member_has_the_default_of_its_row);
    tcase_add_loop_test(tests, nobody_is_asked_beside_another_unless_the_model_says_after_how_long, 0,
                        COUNT(hedges));
    tcase_add_loop_test(tests, a_model_may_have_all_workers_unless_it_says_otherwise, 0, COUNT(shares));
    tcase_add_loop_test(tests, heartbeats_come_before_content_only_where_the_model_says_how_often, 0,
                        (int)COUNT(heartbeats));
    tcase_add_test(tests, defaults_are_those_of_the_document_wherever_they_stand);
    tcase_add_test(tests, a_present_member_wins_over_the_default);
    tcase_add_loop_test(tests, the_url_is_the_base_without_its_last_slashes, 0, COUNT(urls));
    tcase_add_loop_test(tests, the_provider_is_known_from_the_host, 0, COUNT(hosts));
    tcase_add_test(tests, telemetry_names_a_provider_of_speech_by_its_service_and_any_other_as_it_is);
    tcase_add_loop_test(tests, an_upstream_of_speech_has_its_whole_endpoint_and_the_clocks_of_the_defaults, 0,
                        COUNT(speeches));
    tcase_add_test(tests, an_id_is_derived_from_what_the_upstream_is_not_from_its_place);
    tcase_add_loop_test(tests, a_pool_is_its_app_s_whatever_the_model_and_else_of_one_upstream_of_one_model,
                        0, COUNT(named_pools));
    tcase_add_test(tests, pools_of_one_upstream_s_name_in_two_models_are_two);
    tcase_add_test(tests, an_upstream_has_no_limit_and_nobody_waits_unless_the_document_says_so);
    tcase_add_test(tests, keys_have_their_additional_data_and_the_fingerprint_of_what_they_hold);
    tcase_add_test(tests, no_plaintext_is_in_the_image);
    tcase_add_test(tests, the_root_says_which_generation_of_which_document_it_is);
    tcase_add_test(tests, one_document_gives_one_image_apart_from_its_time);
    tcase_add_test(tests, the_entry_that_is_refused_is_named_and_nothing_is_given);
    tcase_add_test(tests, an_image_beyond_the_limit_is_refused);
    tcase_add_test(tests, every_row_is_complete);
    tcase_add_test(tests, entries_are_found_by_name);
    tcase_add_test(tests, the_schema_has_the_fields_with_their_bounds_and_defaults);
    tcase_add_test(tests, the_schema_has_the_parameters_of_every_adapter);
    tcase_add_test(tests, the_manual_names_every_field);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
