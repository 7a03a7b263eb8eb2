export { selfSigned } from '../../deploy/local/certificate.ts'
