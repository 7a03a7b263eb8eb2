// Runs one job with the generated client and prints what a test compares, as JSON.
import com.example.verificationjobs.ApiClient;
import com.example.verificationjobs.ApiException;
import com.example.verificationjobs.api.AccountApi;
import com.example.verificationjobs.api.JobsApi;
import com.example.verificationjobs.model.AcceptedJob;
import com.example.verificationjobs.model.InputWithId;
import com.example.verificationjobs.model.Job;
import com.example.verificationjobs.model.JobInput;
import com.example.verificationjobs.model.JobRequest;
import com.example.verificationjobs.model.ResultsPage;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParser;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class RunJob {
  public static void main(String[] arguments) throws Exception {
    ApiClient client = new ApiClient();
    client.setBasePath(System.getenv("HOST"));
    client.setBearerToken(System.getenv("KEY"));
    JobsApi jobs = new JobsApi(client);

    JobRequest request = new JobRequest()
        .service(JobRequest.ServiceEnum.PHONE_VALIDATION)
        .inputs(List.of(
            new JobInput("+12127365000"),
            new JobInput(new InputWithId().input("(212) 736-5000").id("customer-17")),
            new JobInput("call me")))
        .countryCode("US")
        .forceFresh(true)
        .metadata(Map.of("language", "java"));
    UUID key = UUID.randomUUID();
    AcceptedJob created = create(jobs, request, key);
    AcceptedJob repeated = create(jobs, request, key);
    String id = created.getId();
    Job job = jobs.getJob(id, null);
    while (!List.of("completed", "cancelled", "failed").contains(job.getStatus().getValue())) {
      Thread.sleep(50);
      job = jobs.getJob(id, null);
    }
    ResultsPage page = jobs.getResults(id, null, null, null, null, 2, null, null, null, null, null,
        null, null, null, null, null, null);
    var call = jobs.getResultsCall(id, "csv", null, null, null, null, null, null, null, null, null,
        null, null, null, null, null, null, null);
    String csv;
    try (var answer = client.getHttpClient()
        .newCall(call.request().newBuilder().header("Accept", "text/csv").build()).execute()) {
      csv = answer.body().string();
    }
    String refused = null;
    try {
      jobs.getJob("job_unknown", null);
    } catch (ApiException error) {
      refused = JsonParser.parseString(error.getResponseBody()).getAsJsonObject()
          .getAsJsonObject("error").get("code").getAsString();
    }

    Map<String, Object> output = new LinkedHashMap<>();
    output.put("id", id);
    output.put("repeated", repeated.getId());
    output.put("maxQuoteMicros", created.getPreflight().getMaxQuoteMicros());
    output.put("status", job.getStatus().getValue());
    output.put("chargedMicros", job.getChargedMicros());
    output.put("metadata", job.getMetadata());
    output.put("listed",
        jobs.listJobs(1, null, null, null, null, null, null).getData().get(0).getId());
    output.put("rows", page.getData().stream().map(row -> Arrays.asList(
        row.getRow(), row.getStatus().getValue(), row.getE164(), row.getId())).toList());
    output.put("hasMore", page.getHasMore());
    output.put("csv", csv.lines().findFirst().orElse(""));
    output.put("currency", new AccountApi(client).getBalance().getCurrency());
    output.put("refused", refused);
    String body = System.getenv("WEBHOOK_BODY");
    output.put("webhooks", List.of(isGenuine(body), isGenuine(body + " ")));
    System.out.println(new GsonBuilder().serializeNulls().create().toJson(output));
  }

  private static AcceptedJob create(JobsApi jobs, JobRequest request, UUID key)
      throws ApiException {
    return jobs.createJob(request, null, null, null, null, null, null, null, null, null, null,
        null, key);
  }

  /** Whether the body has the signature t=...,v1=... by the secret, and is recent. */
  private static boolean isGenuine(String body) throws Exception {
    String time = null;
    String signature = "";
    for (String part : System.getenv("WEBHOOK_SIGNATURE").split(",")) {
      if (part.startsWith("t=")) time = part.substring(2);
      if (part.startsWith("v1=")) signature = part.substring(3);
    }
    Mac mac = Mac.getInstance("HmacSHA256");
    byte[] secret = System.getenv("WEBHOOK_SECRET").getBytes(StandardCharsets.UTF_8);
    mac.init(new SecretKeySpec(secret, "HmacSHA256"));
    byte[] expected = mac.doFinal((time + "." + body).getBytes(StandardCharsets.UTF_8));
    boolean isRecent = Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(time)) <= 300;
    return isRecent && MessageDigest.isEqual(expected, HexFormat.of().parseHex(signature));
  }
}
