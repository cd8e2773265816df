// Passes connections to a port of 127.0.0.1 on over stdin and stdout; its frames are those of relay.py.
const net = require("net");
const connections = new Map();
let count = 0;
let held = Buffer.alloc(0);

function send(number, data) {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(number, 0);
  header.writeUInt32BE(data.length, 4);
  return process.stdout.write(Buffer.concat([header, data]));
}

const server = net.createServer({ allowHalfOpen: true }, (connection) => {
  const number = ++count;
  connections.set(number, connection);
  connection.on("data", (data) => {
    if (!send(number, data)) {
      connection.pause();
      process.stdout.once("drain", () => connection.resume());
    }
  });
  let ended = false;
  const end = () => {
    if (!ended) send(number, Buffer.alloc(0));
    ended = true;
  };
  connection.on("end", end);
  connection.on("error", end);
  connection.on("close", end);
});

process.stdin.on("data", (data) => {
  held = Buffer.concat([held, data]);
  while (held.length >= 8 && held.length >= 8 + held.readUInt32BE(4)) {
    const number = held.readUInt32BE(0);
    const payload = held.subarray(8, 8 + held.readUInt32BE(4));
    held = held.subarray(8 + payload.length);
    const connection = connections.get(number);
    if (connection === undefined) continue;
    if (payload.length) {
      connection.write(payload);
    } else {
      connection.end();
      connections.delete(number);
    }
  }
});
process.stdin.on("end", () => process.exit(0));
server.listen(Number(process.argv[1]), "127.0.0.1", () => process.stdout.write("ready\n"));
