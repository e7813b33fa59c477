package dev.mcpbridge;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateEncodingException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;

/** The key pair from the bridge, and the CA of the only client to accept. */
record KeyPair(PrivateKey key, X509Certificate certificate, X509Certificate client) {
  private static final String CERTIFICATE = "-----BEGIN CERTIFICATE-----";

  /** Reads the key pair that the environment names. Returns null if the bridge does not use TLS. */
  static KeyPair fromEnvironment() throws IOException {
    String client = System.getenv("PLUGIN_CLIENT_CERT");
    if (client == null || client.isEmpty()) {
      return null;
    }
    String file = System.getenv("MCPBRIDGE_KEY_PAIR");
    if (file == null || file.isEmpty()) {
      throw new IOException(
          "this host requires the plugin to create its own certificate (AutoMTLS of go-plugin); this SDK cannot");
    }
    String pem;
    try {
      pem = Files.readString(Path.of(file), StandardCharsets.US_ASCII);
    } catch (IOException e) {
      throw new IOException("cannot read the key pair that the bridge made for this plugin: " + e, e);
    }
    int at = pem.indexOf(CERTIFICATE);
    if (at < 0) {
      throw new IOException("the key pair that the bridge made for this plugin has no certificate");
    }
    try {
      X509Certificate certificate = certificate(pem.substring(at));
      byte[] der = Base64.getMimeDecoder().decode(pem.substring(0, at).replaceAll("-----[A-Z ]*-----", ""));
      PrivateKey key =
          KeyFactory.getInstance(certificate.getPublicKey().getAlgorithm())
              .generatePrivate(new PKCS8EncodedKeySpec(der));
      return new KeyPair(key, certificate, certificate(client));
    } catch (GeneralSecurityException e) {
      throw new IOException("invalid key pair of the bridge: " + e.getMessage(), e);
    }
  }

  private static X509Certificate certificate(String pem) throws GeneralSecurityException {
    var in = new ByteArrayInputStream(pem.getBytes(StandardCharsets.US_ASCII));
    return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
  }

  /** Returns the certificate as in the handshake. go-plugin expects no padding. */
  String handshake() {
    try {
      return Base64.getEncoder().withoutPadding().encodeToString(certificate.getEncoded());
    } catch (CertificateEncodingException e) {
      throw new IllegalStateException(e);
    }
  }
}
