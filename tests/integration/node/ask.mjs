// One request with OpenAI's client library, as the JSON on standard input says;
// what came of it goes to standard output, as JSON.
//
//   { baseURL, apiKey, wants?: 'models' | 'speech' | 'transcription', file?, body, inPieces?, maxRetries?, abortAfterChunks? }
//   -> { chunks, models?, done?, requestID?, contentType?, aborted?, error?: { name, status, code, requestID, message } }
//
// Of speech, `done` is the whole of it, in base64; with inPieces it is `chunks`, each
// with the milliseconds since the request: [milliseconds, base64].
import OpenAI, { toFile } from 'openai';

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

async function speak() {
  const begun = performance.now();
  const reply = await client.audio.speech.create(job.body);
  result.requestID = reply.headers.get('x-request-id');
  result.contentType = reply.headers.get('content-type');
  if (!job.inPieces) {
    result.done = Buffer.from(await reply.arrayBuffer()).toString('base64');
    return;
  }
  for await (const piece of reply.body) {
    result.chunks.push([performance.now() - begun, Buffer.from(piece).toString('base64')]);
    if (result.chunks.length === job.abortAfterChunks) {
      result.aborted = true;
      return; // which cancels the body
    }
  }
}

try {
  if (job.wants === 'models') {
    result.models = (await client.models.list()).data.map((model) => model.id);
  } else if (job.wants === 'speech') {
    await speak();
  } else if (job.wants === 'transcription') {
    const file = await toFile(Buffer.from(job.file, 'base64'), 'speech.wav');
    const reply = await client.audio.transcriptions.create({ ...job.body, file });
    if (job.body.stream) for await (const event of reply) result.chunks.push(event);
    else result.done = reply;
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
