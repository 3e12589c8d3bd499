// One request with OpenAI's client library, as the JSON on standard input says;
// what came of it goes to standard output, as JSON.
//
//   { baseURL, apiKey, wants?: 'models', body, maxRetries?, abortAfterChunks? }
//   -> { chunks, models?, done?, requestID?, aborted?, error?: { name, status, code, requestID, message } }
import OpenAI from 'openai';

const input = [];
for await (const piece of process.stdin) input.push(piece);
const job = JSON.parse(Buffer.concat(input));

const client = new OpenAI({
  baseURL: job.baseURL,
  apiKey: job.apiKey,
  maxRetries: job.maxRetries ?? 0,
  timeout: 20000,
});
const result = { chunks: [] };
try {
  if (job.wants === 'models') {
    result.models = (await client.models.list()).data.map((model) => model.id);
  } else if (!job.body.stream) {
    result.done = await client.chat.completions.create(job.body);
    result.requestID = result.done._request_id;
  } else {
    const stream = await client.chat.completions.create(job.body);
    for await (const chunk of stream) {
      result.chunks.push(chunk);
      if (result.chunks.length === job.abortAfterChunks) {
        stream.controller.abort();
        result.aborted = true;
      }
    }
  }
} catch (error) {
  result.error = {
    name: error.constructor.name,
    status: error.status,
    code: error.code,
    requestID: error.requestID,
    message: error.message,
  };
}
process.stdout.write(JSON.stringify(result));
