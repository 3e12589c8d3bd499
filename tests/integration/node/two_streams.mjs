// Two streams of one HTTP/2 connection: when both have begun, the first is cancelled.
// Standard output is a line for each step, then what the second one was: JSON.
//
//   NODE_EXTRA_CA_CERTS=… node two_streams.mjs URL KEY MODEL_TO_CANCEL MODEL_TO_READ
import http2 from 'node:http2';

const [url, key, cancelled, read] = process.argv.slice(2);
const session = http2.connect(url);

function ask(model) {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Say hello.' }] });
  const stream = session.request({
    ':method': 'POST',
    ':path': '/v1/chat/completions',
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  stream.end(body);
  stream.setEncoding('utf8');
  stream.text = '';
  stream.on('response', (headers) => (stream.status = headers[':status']));
  stream.on('data', (piece) => (stream.text += piece));
  stream.on('error', (error) => (stream.failure = error.message));
  return stream;
}

async function until(stream, mark) {
  while (!stream.text.includes(mark) && !stream.closed) await new Promise((resolve) => setTimeout(resolve, 5));
}

const first = ask(cancelled);
const second = ask(read);
await until(first, 'Hello');
await until(second, 'Hello');
first.close(http2.constants.NGHTTP2_CANCEL);
console.log('cancelled');
await new Promise((resolve) => second.on('close', resolve));
console.log(JSON.stringify({ status: second.status, text: second.text, failure: second.failure ?? null }));
session.close();
