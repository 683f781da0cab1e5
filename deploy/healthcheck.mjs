// Ends with 0 if the server of this container answers and its store does too. With TLS, or on another port, set LEASEHOLD_HEALTH_URL:
//
//   LEASEHOLD_HEALTH_URL=https://127.0.0.1:7411/healthz
import { get as getHttp } from 'node:http'
import { get as getHttps } from 'node:https'

const url = process.env.LEASEHOLD_HEALTH_URL || 'http://127.0.0.1:7411/healthz'
const get = url.startsWith('https:') ? getHttps : getHttp
// The certificate names the host that others use, not this address. Nothing secret is sent.
const request = get(url, { timeout: 4000, rejectUnauthorized: false }, (response) => {
  response.resume()
  end(response.statusCode === 200 ? 0 : 1, `${url} answered ${response.statusCode}`)
})
request.on('timeout', () => end(1, `${url} did not answer within 4 s`))
request.on('error', (error) => end(1, `${url}: ${error.message}`))

function end(code, message) {
  console.log(message)
  process.exit(code)
}
