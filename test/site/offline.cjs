/** Loaded ahead of a build: it ends the process at its first connection. Sockets of files are its own processes' among each other. */
const { Socket } = require('node:net')

const { connect } = Socket.prototype
Socket.prototype.connect = function (...args) {
  const [[options] = []] = Array.isArray(args[0]) ? args : [args]
  if (typeof options === 'string' || options?.path !== undefined) return connect.apply(this, args)
  console.error(`A build of the site opened a connection to ${JSON.stringify(options)}`)
  process.exit(9)
}
