/* The plain completion with which the upstream and hello answer alike. */
#ifndef TESTS_BENCH_REPLY_H
#define TESTS_BENCH_REPLY_H

static const char bench_reply[] =
    "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1760000000,\"model\":\"real-"
    "model\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"A gateway should cost its "
    "callers "
    "nothing that they can see. This reply is about as long as a short answer is: two sentences, and the "
    "members "
    "that a provider sends around "
    "them.\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\""
    ":24,\"completion_tokens\":41,\"total_tokens\":65},\"system_fingerprint\":\"fp_bench\"}";

#endif
